// One scene: the image, the map seen from above, and the table of objects, at a moment of the inner optimisation.
import { html, slider, svg } from "./dom.js";
import { Player } from "./player.js";

const COLOURS = {
  gray: "#575757", red: "#ad2323", blue: "#2a4bd7", green: "#1d6914",
  brown: "#814a19", purple: "#8126c0", cyan: "#29d0d0", yellow: "#ffee33",
};
const LIGHT = new Set(["cyan", "yellow"]);
const WORDS = ["size", "color", "material", "shape"];
const NEAR = 0.5;
const REACH = 4.4;

export class SceneView {
  constructor(root, id) {
    this.threshold = 0.5;
    this.picture = svg("svg", { class: "picture", id: `${id}-picture`, role: "img" });
    this.map = svg("svg", { class: "map", id: `${id}-map`, viewBox: `${-REACH} ${-REACH} ${2 * REACH} ${2 * REACH}`, role: "img" });
    this.table = html("div", { class: "scroll", id: `${id}-table` });
    this.summary = html("output", { id: `${id}-summary` });
    this.player = new Player(`${id}-iteration`, (t) => this.at(Math.round(t)));
    const threshold = slider({
      id: `${id}-threshold`, name: "confidence", hint: "Elements surer than this are objects", min: 0.05, max: 0.95, step: 0.05,
      value: this.threshold, show: (value) => `≥ ${value.toFixed(2)}`,
      live: (value) => { this.threshold = value; this.at(Math.round(this.player.t)); },
    });
    root.append(html("div", { class: "scene-layout" },
      html("figure", { class: "card" }, html("figcaption", {}, html("strong", {}, "Image"), this.summary), this.picture),
      html("figure", { class: "card" },
        html("figcaption", {}, html("strong", {}, "From above"), html("output", {}, "hollow: the truth")), this.map),
      html("div", { class: "card player wide" }, ...this.player.elements, threshold.element),
      html("div", { class: "card wide" }, this.table)));
  }

  onDrop(use) {
    const over = (on) => (event) => {
      event.preventDefault();
      this.picture.classList.toggle("drop", on);
      if (!on && event.dataTransfer?.files.length) use(event.dataTransfer.files[0]);
    };
    this.picture.addEventListener("dragover", over(true));
    this.picture.addEventListener("dragleave", over(false));
    this.picture.addEventListener("drop", over(false));
  }

  load(state) {
    this.state = state;
    const [width, height] = state.frame;
    this.picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.image = state.image ? svg("image", { href: state.image, width, height, preserveAspectRatio: "none" }) : null;
    const last = state.iterates.presence.length - 1;
    for (const element of this.player.elements) element.hidden = last === 0; // a model that does not iterate
    this.player.load(last);
    this.player.replay();
  }

  // Elements that are not sure enough to be objects, faint as they are.
  ghosts(t) {
    const { presence } = this.state.iterates;
    return presence[t].flatMap((sure, i) => (sure < this.threshold && sure > 0.02 ? [{ found: this.described(this.state.iterates, t, i), right: true }] : []));
  }

  described(from, t, i) {
    const { attributes } = this.state;
    return {
      place: from.places[t][i],
      pixel: from.pixels[t][i],
      presence: from.presence[t][i],
      words: Object.fromEntries(Object.keys(attributes).map((name, k) => [name, attributes[name][from.attributes[t][i][k]]])),
      sure: Object.fromEntries(Object.keys(attributes).map((name, k) => [name, from.sure[t][i][k]])),
    };
  }

  // What is seen at iteration t: predicted objects with the true one each is matched with, then those missed.
  objects(t) {
    const { iterates, truth, pairs } = this.state;
    const rows = [];
    const missed = [];
    iterates.presence[t].forEach((presence, i) => {
      const found = presence >= this.threshold ? this.described(iterates, t, i) : null;
      const k = pairs?.[t][i];
      const there = truth && truth.presence[0][k] > 0.5 ? this.described(truth, 0, k) : null;
      if (found) {
        const wrong = there ? WORDS.filter((word) => found.words[word] !== there.words[word]) : truth ? [...WORDS] : [];
        const distance = there ? Math.hypot(...found.place.map((x, axis) => x - there.place[axis])) : null;
        rows.push({ found, there, wrong, distance, right: !truth || (there && !wrong.length && distance <= NEAR) });
      } else if (there) missed.push({ found: null, there, wrong: [], right: false });
    });
    rows.sort((a, b) => b.found.presence - a.found.presence);
    return [...rows, ...missed].map((row, i) => ({ ...row, number: i + 1 }));
  }

  at(t) {
    if (!this.state) return;
    const last = Math.min(t, this.state.iterates.presence.length - 1);
    const rows = this.objects(last);
    const ghosts = this.ghosts(last);
    const seen = rows.filter(({ found }) => found);
    const count = seen.length;
    const there = rows.filter(({ there }) => there).length;
    this.summary.textContent = this.state.truth
      ? `${seen.filter(({ right }) => right).length} of ${there} objects right`
      : `${count} object${count === 1 ? "" : "s"} found`;
    if (this.state.strange) this.summary.textContent += ", but this looks unlike the scenes it learned from";
    this.picture.setAttribute("aria-label", this.summary.textContent);
    this.map.setAttribute("aria-label", `Map: ${this.summary.textContent}`);
    this.picture.replaceChildren(...(this.image ? [this.image] : []), ...[...ghosts, ...seen].flatMap((row) => marker(row, row.found.pixel, 15)));
    this.drawMap(rows, [...ghosts, ...seen]);
    this.table.replaceChildren(table(rows, Boolean(this.state.truth)));
  }

  drawMap(rows, seen) {
    const [right, away] = this.state.turn;
    const turned = ([x, y]) => [x * right[0] + y * right[1], -(x * away[0] + y * away[1])];
    const corners = [[-3, -3], [3, -3], [3, 3], [-3, 3]].map(turned);
    const links = svg("g", { class: "links" });
    const truths = [];
    for (const { found, there } of rows) {
      if (!there) continue;
      const at = turned(there.place);
      const r = there.words.size === "large" ? 0.42 : 0.3;
      truths.push(outline(there.words.shape, at, r, { class: "truth", "stroke-width": 0.07 }));
      if (found) {
        const from = turned(found.place);
        links.append(svg("line", { x1: from[0], y1: from[1], x2: at[0], y2: at[1] }));
      }
    }
    this.map.replaceChildren(
      svg("polygon", { class: "floor", points: corners.map((corner) => corner.join(",")).join(" ") }),
      links, ...truths,
      ...seen.flatMap((row) => marker(row, turned(row.found.place), 0.3, 1 / 45)));
  }
}

// A predicted element in its own colour, shape and size, as opaque as it is sure to exist; an object has its number, and
// is dashed where it is wrong.
function marker({ found, number, right }, [x, y], radius, scale = 1) {
  const { color, shape, size } = found.words;
  const r = size === "large" ? radius : 0.72 * radius;
  const style = { fill: COLOURS[color], class: right ? "thing" : "thing wrong", "data-number": number };
  const body = outline(shape, [x, y], r, style);
  body.style.strokeWidth = (right ? 1.5 : 3) * scale;
  body.style.strokeDasharray = right ? "" : `${5 * scale} ${2.5 * scale}`;
  const halo = outline(shape, [x, y], r + 1.5 * scale, { class: "halo" });
  halo.style.strokeWidth = 3.5 * scale;
  const label = svg("text", { x, y, class: "number", fill: LIGHT.has(color) ? "#10151a" : "#fff", "font-size": 1.05 * r }, String(number ?? ""));
  const all = svg("g", { opacity: Math.max(0, Math.min(1, found.presence)).toFixed(2), class: number ? "object" : "ghost" });
  all.append(halo, body, label);
  return [all];
}

function outline(shape, [x, y], r, attributes) {
  if (shape === "cube") return svg("rect", { x: x - 0.9 * r, y: y - 0.9 * r, width: 1.8 * r, height: 1.8 * r, ...attributes });
  if (shape === "cylinder")
    return svg("rect", { x: x - 0.72 * r, y: y - r, width: 1.44 * r, height: 2 * r, rx: 0.7 * r, ...attributes });
  return svg("circle", { cx: x, cy: y, r, ...attributes });
}

function table(rows, judged) {
  const head = ["", "confidence", ...WORDS.map((word) => (word === "color" ? "colour" : word)), "place", ...(judged ? ["judged"] : [])];
  return html("table", {},
    html("thead", {}, html("tr", {}, ...head.map((word) => html("th", { scope: "col" }, word)))),
    html("tbody", {}, ...rows.map((row) => line(row, judged))));
}

function line({ number, found, there, wrong, distance, right }, judged) {
  const swatch = (words) => html("span", { class: "swatch", "data-colour": words.color });
  const paint = (element, words) => { element.style.background = COLOURS[words.color]; return element; };
  if (!found) {
    const { words } = there;
    const cells = WORDS.map((word) => html("td", {}, ...(word === "color" ? [paint(swatch(words), words)] : []), words[word]));
    return html("tr", { class: "missed" }, html("td", {}, String(number)), html("td", {}, "none"), ...cells,
      html("td", {}, placed(there.place)),
      html("td", { class: "wrong-word" }, "✗ missed"));
  }
  const bar = html("i");
  bar.style.width = `${Math.max(0, Math.min(1, found.presence)) * 100}%`;
  const cells = WORDS.map((word) => {
    const bad = judged && wrong.includes(word);
    const value = html("span", { class: bad ? "wrong-word" : null }, found.words[word]);
    const instead = bad && there ? ` (${there.words[word]})` : "";
    return html("td", {}, ...(word === "color" ? [paint(swatch(found.words), found.words)] : []), value, instead,
      html("small", {}, ` ${Math.round(100 * found.sure[word])} %`));
  });
  const verdict = !there ? "✗ not there" : right ? `✓ ${distance.toFixed(2)} away` : wrong.length ? `✗ ${wrong.map((word) => (word === "color" ? "colour" : word)).join(", ")}` : `✗ ${distance.toFixed(2)} away`;
  return html("tr", {},
    html("td", {}, String(number)),
    html("td", {}, html("span", { class: "bar" }, bar), Math.max(0, Math.min(1, found.presence)).toFixed(2)),
    ...cells,
    html("td", {}, placed(found.place)),
    ...(judged ? [html("td", { class: right ? "right-word" : "wrong-word" }, verdict)] : []));
}

// Without the sign of a zero.
const placed = (place) => place.map((x) => (Math.round(10 * x) / 10 + 0).toFixed(1)).join(", ");
