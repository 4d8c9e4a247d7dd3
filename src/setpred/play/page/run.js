// Your run: its own examples, shown as its task asks for.
import { get, newest } from "./api.js";
import { Chart } from "./chart.js";
import { byId, html, showCode, slider, svg } from "./dom.js";
import { judged, Plane } from "./plane.js";
import { Player } from "./player.js";
import { SceneView } from "./sceneview.js";

export function startRun({ runs }) {
  const root = byId("run-view");
  if (!runs.length) {
    root.append(html("div", { class: "card" },
      html("p", {}, "No run was named when the playground was started. Train one and name its folder:"),
      html("pre", {}, html("code", {}, "setpred train autoencoding --preset quick data.d=2 --out runs/mine\nsetpred play runs/mine"))));
    return;
  }
  let chosen = 0;
  let shown = null;
  const number = html("input", { id: "run-example", type: "number", min: 0, value: 0 });
  const facts = html("p", { class: "quiet", id: "run-facts" });
  const body = html("div", { id: "run-body" });
  const show = newest(
    () => get(`/api/runs/${chosen}/${number.value}?steps=${steps.input.value}`),
    (answer) => {
      if (shown?.kind !== answer.kind) {
        body.replaceChildren();
        shown = { kind: answer.kind, view: new VIEWS[answer.kind](body) };
      }
      shown.view.load(answer);
      showCode("run-code", answer.code);
    },
  );
  const steps = slider({
    id: "run-steps", name: "iterations", hint: "Steps of the inner optimisation", min: 1, max: 200, step: 1, value: 40, live: show,
  });
  const choose = () => {
    const run = runs[chosen];
    number.max = run.examples - 1;
    number.value = 0;
    steps.set(run.steps);
    const metrics = Object.entries(run.metrics).slice(0, 6).map(([name, value]) => `${name} ${value}`).join(" · ");
    facts.textContent = `${run.task}, ${run.model}: ${metrics}`;
    show();
  };
  const choice = html("select", { id: "run-choice", "aria-label": "Run" }, ...runs.map(({ name }, i) => html("option", { value: i }, name)));
  choice.addEventListener("change", () => { chosen = Number(choice.value); choose(); });
  const step = (by) => () => {
    number.value = Math.min(runs[chosen].examples - 1, Math.max(0, Math.floor(Number(number.value) + by)));
    show();
  };
  number.addEventListener("change", step(0));
  root.append(html("div", { class: "run-layout" },
    html("div", { class: "buttons" }, choice,
      html("span", { class: "together" },
        html("button", { "aria-label": "Previous example", onclick: step(-1) }, "◀"),
        html("label", {}, "example ", number),
        html("button", { "aria-label": "Next example", id: "run-next", onclick: step(1) }, "▶")),
      steps.element),
    facts, body));
  choose();
}

class PointsView {
  constructor(root) {
    const surface = svg("svg", { class: "plane", viewBox: "-3 -3 6 6", role: "img", "aria-label": "The set that is found" });
    this.plane = new Plane(surface, "fs");
    this.caption = html("output", { id: "run-error" });
    const lines = svg("svg");
    this.chart = new Chart(lines, ["fs", "sum"]);
    this.player = new Player("run-iteration", (t) => {
      this.plane.at(t);
      this.chart.at(t);
      if (this.descent) this.caption.textContent = judged(this.descent, Math.round(t));
    });
    root.append(html("div", { class: "run-pair" },
      html("figure", { class: "card" }, html("figcaption", {}, html("strong", {}, "Set"), this.caption), surface),
      html("div", {},
        html("figure", { class: "card chart" }, html("figcaption", {}, html("span", {},
          html("strong", {}, "Inner loss"), " (solid) and ", html("strong", {}, "set error"), " (dashed)")), lines),
        html("div", { class: "card player" }, ...this.player.elements))));
  }

  load(answer) {
    this.descent = answer;
    this.plane.load(answer, answer.target);
    this.chart.load({ fs: answer.inner, sum: answer.error });
    this.player.load(answer.frames.length - 1);
    this.player.replay();
  }
}

class NumberingView {
  constructor(root) {
    this.table = html("div", { class: "card scroll" });
    this.player = new Player("run-iteration", (t) => this.at(Math.round(t)));
    root.append(this.table, html("div", { class: "card player" }, ...this.player.elements));
  }

  load(answer) {
    this.answer = answer;
    this.player.load(answer.numbers.length - 1);
    this.player.replay();
  }

  at(t) {
    if (!this.answer) return;
    const { classes, numbers, wrong } = this.answer;
    const names = [...new Set(classes)].sort((a, b) => a - b);
    const bad = wrong[t].filter(Boolean).length;
    this.table.replaceChildren(
      html("p", {}, bad ? `${bad} of ${classes.length} elements have a number that is taken or too large.` : "Every element has a number of its own."),
      html("table", {}, html("thead", {}, html("tr", {}, html("th", {}, "class"), html("th", {}, "numbers of its elements"))),
        html("tbody", {}, ...names.map((name) => html("tr", {}, html("td", {}, String.fromCharCode(97 + name)),
          html("td", {}, ...classes.flatMap((own, i) => own !== name ? [] :
            [html("span", { class: wrong[t][i] ? "wrong-word" : null }, `${wrong[t][i] ? "✗" : ""}${numbers[t][i]} `)])))))));
  }
}

class RunSceneView {
  constructor(root) { this.view = new SceneView(root, "run-scene"); }
  load(answer) { this.view.load(answer); }
}

class ObjectsView {
  constructor(root) {
    this.input = html("div", { class: "card" });
    this.table = html("div", { class: "card scroll", id: "run-objects" });
    this.player = new Player("run-iteration", (t) => this.at(Math.round(t)));
    root.append(html("div", { class: "run-pair" }, this.input,
      html("div", {}, this.table, html("div", { class: "card player" }, ...this.player.elements))));
  }

  load(answer) {
    this.answer = answer;
    const rows = answer.input && (Array.isArray(answer.input[0]) ? answer.input : [answer.input]);
    const [width, height] = answer.size;
    this.marks = svg("g", { class: "marks" });
    const shown = answer.image
      ? svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "input-image", role: "img", "aria-label": "The input" },
        svg("image", { href: answer.image, width, height, preserveAspectRatio: "none" }), this.marks)
      : html("pre", {}, rows.map((row) => row.join("  ")).join("\n"));
    this.input.replaceChildren(html("strong", {}, "Input"), shown);
    this.player.load(answer.iterates.length - 1);
    this.player.replay();
  }

  at(t) {
    if (!this.answer) return;
    const { fields, truth, there, iterates, presence, pairs, right, places } = this.answer;
    const rows = iterates[t].flatMap((thing, i) => {
      const k = pairs[t][i];
      const found = presence[t][i] >= 0.5;
      if (!found && !there[k]) return [];
      const cells = fields.map((field, f) => {
        const ok = found && there[k] && right[t][i][f];
        const said = found ? text(thing[field]) : "none";
        const wanted = there[k] && !ok ? ` (${text(truth[k][field])})` : "";
        return html("td", {}, html("span", { class: ok ? null : "wrong-word" }, `${ok ? "" : "✗ "}${said}`), wanted);
      });
      return [html("tr", {}, html("td", {}, Math.max(0, Math.min(1, presence[t][i])).toFixed(2)), ...cells)];
    });
    if (places) this.marks.replaceChildren(...places[t].map((place, i) => this.mark(place, presence[t][i])));
    this.table.replaceChildren(html("table", {},
      html("thead", {}, html("tr", {}, html("th", {}, "confidence"), ...fields.map((field) => html("th", {}, field)))),
      html("tbody", {}, ...rows)));
  }

  // A place in the image, a point or a box, as opaque as its element is sure.
  mark([x, y, width, height], opacity) {
    const style = { opacity, fill: "none", stroke: "currentColor", "vector-effect": "non-scaling-stroke", "stroke-width": 2 };
    if (width === undefined) return svg("circle", { cx: x, cy: y, r: Math.max(...this.answer.size) / 40, ...style });
    return svg("rect", { x: x - width / 2, y: y - height / 2, width, height, ...style });
  }
}

const text = (value) => (Array.isArray(value) ? value.map(text).join(", ") : typeof value === "number" ? String(Number(value.toPrecision(3))) : String(value));

const VIEWS = { points: PointsView, numbering: NumberingView, scene: RunSceneView, objects: ObjectsView };
