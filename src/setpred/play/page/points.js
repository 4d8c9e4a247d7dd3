// Sets of points: edit one, and watch three decoders find it again.
import { newest, post } from "./api.js";
import { Chart, short } from "./chart.js";
import { byId, html, showCode, slider, svg } from "./dom.js";
import { Editor } from "./editor.js";
import { Plane } from "./plane.js";
import { Player } from "./player.js";
import { digit, random, ring, twins } from "./shapes.js";

const MOST = 16;
const MODELS = { fs: "FSPool", sum: "sum", mean: "mean" };
const USUAL = { iterations: 40, momentum: 0.9, step: 1, spread: 0.5 };

export function startPoints() {
  const state = { ...USUAL, seed: 0 };
  const names = Object.keys(MODELS);
  const planes = {};
  const captions = {};
  for (const name of names) {
    const surface = svg("svg", { class: "plane", viewBox: "-3 -3 6 6", role: "img", "aria-label": `Points found with ${MODELS[name]}` });
    captions[name] = html("output", { id: `error-${name}` });
    byId("models").append(
      html("figure", { class: `card model ${name}`, id: `model-${name}` },
        html("figcaption", {}, html("strong", {}, MODELS[name]), captions[name]), surface));
    planes[name] = new Plane(surface, name);
  }
  const charts = { inner: new Chart(byId("chart-inner"), names), error: new Chart(byId("chart-error"), names) };

  let models = null;
  const player = new Player("points-iteration", (t) => {
    if (!models) return;
    for (const name of names) {
      planes[name].at(t);
      captions[name].textContent = `error ${short(models[name].error[Math.round(t)])}`;
    }
    charts.inner.at(t);
    charts.error.at(t);
  });
  byId("points-player").append(...player.elements);

  let replay = true;
  const decode = newest(
    (asked) => post("/api/points", asked),
    (answer, asked) => {
      models = answer.models;
      for (const name of names) planes[name].load(models[name], asked.points);
      for (const [kind, chart] of Object.entries(charts))
        chart.load(Object.fromEntries(names.map((name) => [name, models[name][kind]])));
      player.load(asked.iterations);
      if (replay) player.replay();
      replay = false;
      showCode("points-code", answer.code);
    },
  );
  // While a hand moves something the end is shown, following it; afterwards the way there is played once.
  const ask = (settled) => {
    replay ||= settled;
    if (!settled && player.playing) {
      player.stop();
      player.at(player.last);
    }
    decode(structuredClone({ points: editor.points, ...state }));
  };

  const editor = new Editor(byId("editor"), MOST, (points, settled) => {
    byId("count").textContent = `${points.length} of ${MOST}`;
    size.set(points.length);
    ask(settled);
  });

  const knob = (key, name, hint, min, max, step, show) =>
    slider({
      id: key, name, hint, min, max, step, value: state[key], show,
      live: (value) => { state[key] = value; ask(false); },
      settled: () => ask(true),
    });
  const decimals = (digits) => (value) => value.toFixed(digits);
  let shape = (n) => digit(3, n);
  let which = 2;
  const size = slider({
    id: "size", name: "points", hint: "How many points the set has", min: 1, max: MOST, step: 1, value: 16,
    live: (n) => editor.load(shape(n)),
  });
  const knobs = {
    iterations: knob("iterations", "iterations", "Steps of the inner optimisation", 1, 200, 1),
    momentum: knob("momentum", "momentum", "How much of the last step is kept", 0, 0.99, 0.01, decimals(2)),
    step: knob("step", "step", "How far a step goes", 0.05, 3, 0.05, decimals(2)),
    spread: knob("spread", "spread", "How far apart the points start; 0: all equal", 0, 2, 0.05, (value) => (value ? value.toFixed(2) : "all equal")),
  };
  byId("points-controls").append(
    size.element,
    ...Object.values(knobs).map(({ element }) => element),
    html("div", { class: "buttons" },
      html("button", { id: "new-start", onclick: () => { state.seed += 1; ask(true); } }, "New start"),
      html("button", { id: "equal-start", onclick: () => { knobs.spread.set(0); state.spread = 0; ask(true); } }, "Equal start"),
      html("button", { id: "reset", onclick: () => {
        Object.assign(state, USUAL, { seed: 0 });
        for (const [key, { set }] of Object.entries(knobs)) set(USUAL[key]);
        ask(true);
      } }, "Reset")),
  );
  const begin = (id, make) =>
    byId(`preset-${id}`).addEventListener("click", () => {
      shape = make;
      editor.load(make(id === "random" ? Number(size.input.value) : Math.max(Number(size.input.value), 2)));
    });
  begin("random", random);
  begin("ring", ring);
  begin("twins", twins);
  byId("preset-digit").addEventListener("click", () => {
    const now = which++ % 10;
    shape = (n) => digit(now, n);
    editor.load(shape(MOST));
  });
  byId("add").addEventListener("click", () => editor.add());
  byId("remove").addEventListener("click", () => editor.remove());

  editor.load(shape(MOST));
}
