// Sets of points: edit one, and watch three decoders find it again. All of it is computed in the browser.
import { newest } from "./api.js";
import { Chart } from "./chart.js";
import { decodeAll, POOLS, SIZE } from "./descent.js";
import { byId, copyButton, html, showCode, slider, svg } from "./dom.js";
import { Editor } from "./editor.js";
import { judged, Plane } from "./plane.js";
import { Player } from "./player.js";
import { along, digit, doubled, inside, kept, random, ring } from "./shapes.js";
import { pointsCode } from "./snippets.js";
import { Story, STORY } from "./story.js";

const NAMES = { fs: "FSPool", sum: "sum pooling", mean: "mean pooling" };
const OWN = STORY.length - 1;
// With a step of 1, as in training, the points of some sets move to and fro in the end and the error rises again.
const USUAL = { iterations: 40, momentum: 0.9, step: 0.7, spread: 0.5, seed: 0 };
const LIMITS = { iterations: [1, 200, 1], momentum: [0, 0.99, 0.01], step: [0.05, 3, 0.05], spread: [0, 2, 0.05], seed: [0, 2 ** 31 - 1, 1] };

export function startPoints(_, address, write) {
  const state = { ...USUAL };
  const planes = {};
  const captions = {};
  for (const name of POOLS) {
    const surface = svg("svg", { class: "plane", viewBox: "-3 -3 6 6", role: "img", "aria-label": `Points found with ${NAMES[name]}` });
    captions[name] = html("output", { id: `error-${name}` });
    byId("models").append(
      html("figure", { class: `card model ${name}`, id: `model-${name}` },
        html("figcaption", {}, html("strong", {}, NAMES[name]), captions[name]), surface));
    planes[name] = new Plane(surface, name);
  }
  const charts = { inner: new Chart(byId("chart-inner"), POOLS), error: new Chart(byId("chart-error"), POOLS) };

  let models = null;
  const player = new Player("points-iteration", (t) => {
    if (!models) return;
    for (const name of POOLS) {
      planes[name].at(t);
      captions[name].textContent = judged(models[name], Math.round(t));
    }
    charts.inner.at(t);
    charts.error.at(t);
  });
  byId("points-player").append(...player.elements);

  let replay = true;
  const decode = newest(
    // Between two descents the browser has time to draw what a hand has moved.
    (request) => new Promise((done) => setTimeout(() => done(decodeAll(request)))),
    (found, request) => {
      models = found;
      for (const name of POOLS) planes[name].load(models[name], request.points);
      for (const [kind, chart] of Object.entries(charts))
        chart.load(Object.fromEntries(POOLS.map((name) => [name, models[name][kind]])));
      player.load(request.iterations);
      if (replay) player.replay();
      replay = false;
      showCode("points-code", pointsCode(request));
    },
  );

  let step = 0; // of the story
  // While a hand moves something the end is shown, following it; afterwards the descent is played once.
  const update = (settled) => {
    replay ||= settled;
    if (!settled && player.playing) {
      player.stop();
      player.at(player.last);
    }
    const n = editor.points.length;
    byId("count").textContent = `${n} of ${SIZE}`;
    byId("add").disabled = n >= SIZE;
    byId("remove").disabled = n <= 1;
    size.set(n);
    story.show(step);
    if (settled) write(step === OWN ? query(editor.points, state) : `story=${step + 1}`);
    decode(structuredClone({ points: editor.points, ...state }));
  };
  const byHand = (settled) => {
    step = OWN;
    update(settled);
  };

  // `shape(n)` is the set with n points; `begun` is where a reset leads.
  let shape = (n) => digit(3, n);
  let begun;
  const load = (points, make = kept(points)) => {
    shape = make;
    begun = { points: structuredClone(points), make };
    editor.load(points);
  };
  const settle = (settings) => {
    Object.assign(state, USUAL, settings);
    for (const [key, { set }] of Object.entries(knobs)) set(state[key]);
  };
  const takePen = (pen) => {
    editor.takePen(pen);
    byId("draw").setAttribute("aria-pressed", pen);
  };

  const editor = new Editor(byId("editor"), SIZE, (settled) => {
    const { strokes } = editor;
    shape = strokes ? (n) => along(strokes, n) : kept(editor.points);
    byHand(settled);
  });
  const story = new Story(byId("story"), (chosen) => tell(chosen));
  function tell(chosen) {
    step = chosen;
    const { points, settings } = STORY[step];
    settle(settings);
    takePen(step === OWN);
    if (points) load(points(), step === 2 ? undefined : (n) => digit(3, n));
    else if (editor.points.length < SIZE) load(shape(SIZE), shape);
    update(true);
  }

  const knob = (key, name, hint, show) => {
    const [min, max, by] = LIMITS[key];
    return slider({
      id: key, name, hint, min, max, step: by, value: state[key], show,
      live: (value) => { state[key] = value; byHand(false); },
      settled: () => byHand(true),
    });
  };
  const decimals = (digits) => (value) => value.toFixed(digits);
  const size = slider({
    id: "size", name: "points", hint: "How many points the set has", min: 1, max: SIZE, step: 1, value: SIZE,
    live: (n) => { editor.load(shape(n)); byHand(false); },
    settled: () => byHand(true),
  });
  const knobs = {
    iterations: knob("iterations", "iterations", "How many steps the decoder makes"),
    momentum: knob("momentum", "momentum", "How much of the last step is kept", decimals(2)),
    step: knob("step", "step", "How far a step goes", decimals(2)),
    spread: knob("spread", "spread", "How far apart the points start; at 0 all are equal", (value) => (value ? value.toFixed(2) : "all equal")),
  };
  const button = (id, text, act) => html("button", { id, onclick: () => { act(); byHand(true); } }, text);
  byId("points-controls").append(
    size.element,
    ...Object.values(knobs).map(({ element }) => element),
    html("div", { class: "buttons" },
      button("new-start", "New start", () => { state.seed += 1; }),
      button("equal-start", "Equal start", () => { state.spread = 0; knobs.spread.set(0); }),
      button("reset", "Reset", () => { settle({}); takePen(false); load(structuredClone(begun.points), begun.make); }),
      copyButton("Copy link", () => location.href)));

  let which = 3;
  const presets = {
    random: (n) => load(random(n)),
    ring: (n) => load(ring(n), ring),
    digit: () => {
      const now = (which = (which + 1) % 10);
      load(digit(now, SIZE), (n) => digit(now, n));
    },
    twins: (n) => load(doubled(random(n >> 1))),
  };
  for (const [id, make] of Object.entries(presets))
    byId(`preset-${id}`).addEventListener("click", () => {
      takePen(false);
      make(Math.max(editor.points.length, 2));
      byHand(true);
    });
  byId("draw").addEventListener("click", () => takePen(!editor.pen));
  byId("add").addEventListener("click", () => editor.add());
  byId("remove").addEventListener("click", () => editor.remove());

  function restore(params) {
    const points = pointsOf(params.get("set"));
    const chosen = Number(params.get("story")) - 1;
    if (!points) return tell(chosen in STORY ? chosen : 0);
    step = OWN;
    takePen(false);
    settle(settingsOf(params));
    load(points);
    update(true);
  }
  restore(address);
  return restore;
}

// The state as it stands in the address; what is usual is left out.
function query(points, state) {
  const changed = Object.keys(USUAL).filter((key) => state[key] !== USUAL[key]);
  return [`set=${points.map((point) => point.join(",")).join(";")}`, ...changed.map((key) => `${key}=${state[key]}`)].join("&");
}

// Whatever stands in the address, points lie in the plane and settings in their range.
function pointsOf(text) {
  const points = (text ?? "").split(";").slice(0, SIZE).map((pair) => pair.split(",").map(Number));
  return points.every((point) => point.length === 2 && point.every(Number.isFinite)) ? points.map((point) => point.map(inside)) : null;
}

function settingsOf(params) {
  const given = Object.entries(LIMITS).flatMap(([key, [min, max, by]]) => {
    const value = params.get(key) === null ? NaN : Number(params.get(key));
    if (!Number.isFinite(value)) return [];
    return [[key, Math.max(min, Math.min(max, by === 1 ? Math.round(value) : value))]];
  });
  return Object.fromEntries(given);
}
