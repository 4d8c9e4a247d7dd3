// The equivariance lab: permute before the function, or after it.
import { newest, post } from "./api.js";
import { byId, html, showCode, svg } from "./dom.js";

const MOST = 6;
// Equal elements share a letter and a tint.
const TINTS = ["#56b4e9", "#e69f00", "#2fc79a", "#cc79a7", "#f0e442", "#b9c2cc"];
const BEGIN = {
  1: [[0.5], [0.5], [-1]],
  2: [[0, 0], [0, 0], [0, 0], [0.5, -0.5]],
};

export function startLab({ subjects }) {
  const state = { subject: "push_apart", X: copy(BEGIN[1]), order: [2, 1, 0] };
  const list = html("div", { class: "elements" });
  const order = html("div", { class: "buttons", id: "lab-order" });

  const look = newest(
    (asked) => post("/api/lab", asked),
    (answer, asked) => {
      verdict(answer, asked);
      byId("lab-table").replaceChildren(comparison(answer, asked));
      showCode("lab-code", answer.code);
    },
  );
  const changed = () => {
    draw();
    look(structuredClone(state));
  };

  const choice = html("select", { id: "lab-subject" },
    ...Object.entries(subjects).map(([name, { title }]) => html("option", { value: name }, title)));
  choice.addEventListener("change", () => {
    const before = subjects[state.subject].dim;
    state.subject = choice.value;
    const { dim } = subjects[state.subject];
    if (dim !== before) {
      state.X = copy(BEGIN[dim]);
      state.order = reversal(state.X.length);
    }
    changed();
  });

  function draw() {
    const letters = groups(state.X);
    list.replaceChildren(...state.X.map((element, i) => row(element, i, letters)));
    order.replaceChildren(
      ...state.order.map((from, place) => html("button", {
        title: "Swap with the next", "aria-label": `place ${place}: element ${from}; swap with the next`,
        onclick: () => {
          const next = (place + 1) % state.order.length;
          [state.order[place], state.order[next]] = [state.order[next], state.order[place]];
          changed();
        },
      }, String(from))),
      html("button", { id: "lab-shuffle", onclick: () => { state.order = shuffled(state.order); changed(); } }, "Shuffle"),
      html("button", { id: "lab-reverse", onclick: () => { state.order = reversal(state.X.length); changed(); } }, "Reverse"),
    );
  }

  function row(element, i, letters) {
    const fields = element.map((value, axis) => {
      const input = html("input", { type: "number", step: 0.5, min: -100, max: 100, value, "aria-label": `element ${i}, number ${axis}` });
      input.addEventListener("change", () => {
        const number = Number(input.value);
        if (input.value === "" || !Number.isFinite(number)) return draw();
        state.X[i][axis] = Math.max(-100, Math.min(100, number));
        changed();
      });
      return input;
    });
    return html("div", { class: "element" }, badge(letters[i], i), ...fields,
      html("button", { "aria-label": `Duplicate element ${i}`, title: "Duplicate", disabled: state.X.length >= MOST, onclick: () => {
        state.X.splice(i + 1, 0, [...element]);
        state.order = reversal(state.X.length);
        changed();
      } }, "×2"),
      html("button", { "aria-label": `Remove element ${i}`, title: "Remove", disabled: state.X.length <= 2, onclick: () => {
        state.X.splice(i, 1);
        state.order = reversal(state.X.length);
        changed();
      } }, "−"));
  }

  byId("lab-input").append(
    html("label", { class: "buttons" }, html("strong", {}, "f"), choice),
    html("p", { class: "quiet" }, "X, a multiset: equal elements have the same letter."), list,
    html("p", { class: "quiet" }, "P, the order it is put in: click a number to swap it with the next."), order);
  changed();
}

function verdict(answer, { X, order }) {
  const cause = answer.equal
    ? "Here f(PX) and Pf(X) are the same: P₂ = P."
    : answer.p2
      ? `Here f(PX) ≠ Pf(X), but P₂ = [${answer.p2.join(", ")}] works: P₂X is PX, and P₂f(X) is f(PX). Only equal elements have changed places.`
      : `Here f(PX) ≠ Pf(X), and no P₂ with P₂X = PX repairs it: the best is off by ${answer.deviation.toPrecision(2)}.`;
  byId("lab-verdict").replaceChildren(
    html("p", { class: "verdict", id: "verdict" }, answer.verdict),
    html("p", { id: "lab-cause" }, cause),
    plot(X, answer.out),
    html("details", {}, html("summary", {}, "What the check tried"), html("pre", {}, answer.report)));
}

// Where each element goes: scalars on two lines, points in a plane.
function plot(X, out) {
  if (out[0].length > 2) return html("p", { class: "quiet" }, `Each f(x) has ${out[0].length} numbers: the one-hot rank.`);
  const letters = groups(X);
  const flat = X[0].length === 1;
  const at = (level) => (element) => (flat ? [element[0], level] : [element[0], -element[1]]);
  const from = X.map(at(0));
  const to = out.map(at(1));
  const reach = Math.max(1, ...[...from, ...to].flatMap(([x, y]) => (flat ? [Math.abs(x)] : [Math.abs(x), Math.abs(y)])));
  const x0 = (x) => 240 + (x / reach) * (flat ? 200 : 92);
  const y0 = (y) => (flat ? 36 + 88 * y : 105 + (y / reach) * 92);
  return svg("svg", { class: "lab-plot", viewBox: `0 0 480 ${flat ? 160 : 210}`, role: "img", "aria-label": "Where f takes each element" },
    ...(flat ? [svg("text", { x: 4, y: 40 }, "X"), svg("text", { x: 4, y: 128 }, "f(X)")] : []),
    ...from.map(([x, y], i) => svg("line", { x1: x0(x), y1: y0(y), x2: x0(to[i][0]), y2: y0(to[i][1]) })),
    ...from.map(([x, y], i) => svg("circle", { cx: x0(x), cy: y0(y), r: 6, fill: "none", stroke: tint(letters[i]), "stroke-width": 3 })),
    ...to.map(([x, y], i) => svg("circle", { cx: x0(x), cy: y0(y), r: 7, fill: tint(letters[i]) })));
}

function comparison(answer, { X, order }) {
  const letters = groups(X);
  const shown = (element) => (element.length > 2 ? element.map((v) => Math.round(v)).join(" ") : element.map((v) => v.toFixed(2)).join(", "));
  const same = (a, b) => a.every((v, i) => Math.abs(v - b[i]) < 2e-3);
  const heads = ["place", "PX", "f(PX)", "P f(X)", "", "P₂ f(X)", ""];
  return html("div", { class: "scroll" }, html("table", { id: "lab-comparison" },
    html("thead", {}, html("tr", {}, ...heads.map((word) => html("th", { scope: "col" }, word)))),
    html("tbody", {}, ...order.map((from, place) => {
      const left = answer.of_permuted[place];
      const right = answer.permuted[place];
      const repaired = answer.p2 ? answer.out[answer.p2[place]] : null;
      const judged = (ok) => html("td", { class: ok ? "right-word" : "wrong-word" }, ok ? "=" : "≠");
      return html("tr", { class: "lab-row" },
        html("td", {}, String(place)),
        html("td", {}, badge(letters[from], from), ` ${shown(X[from])}`),
        html("td", {}, shown(left)),
        html("td", {}, shown(right)), judged(same(left, right)),
        html("td", {}, repaired ? shown(repaired) : "none"), repaired ? judged(same(left, repaired)) : html("td", {}, ""));
    }))));
}

function badge(letter, index) {
  const mark = html("span", { class: "group", title: `element ${index}` }, letter);
  mark.style.background = tint(letter);
  return mark;
}

const tint = (letter) => TINTS[letter.charCodeAt(0) - 97];
const copy = (X) => X.map((element) => [...element]);
const reversal = (n) => Array.from({ length: n }, (_, i) => n - 1 - i);

function groups(X) {
  const seen = [];
  return X.map((element) => {
    const key = element.join();
    if (!seen.includes(key)) seen.push(key);
    return String.fromCharCode(97 + seen.indexOf(key));
  });
}

function shuffled(order) {
  const next = [...order];
  for (let i = next.length - 1; i > 0; i--) {
    const j = Math.floor(Math.random() * (i + 1));
    [next[i], next[j]] = [next[j], next[i]];
  }
  return next;
}
