// The equivariance lab: permute before the function, or after it.
import { byId, copyButton, html, showCode } from "./dom.js";
import { compare, groupsOf, permuted, verdict } from "./equivariance.js";
import { Lanes } from "./lanes.js";
import { FUNCTIONS } from "./setfunctions.js";
import { labCode } from "./snippets.js";

const MOST = 6;
const FARTHEST = 100;
// Equal elements share a letter and a tint.
const TINTS = ["#56b4e9", "#e69f00", "#2fc79a", "#cc79a7", "#f0e442", "#b9c2cc"];
const BEGIN = {
  1: [[0.5], [0.5], [-1]],
  2: [[0, 0], [0, 0], [0, 0], [0.5, -0.5]],
};

export function startLab(_, address, write) {
  const state = { f: "push_apart", X: copy(BEGIN[1]), P: [2, 1, 0], repaired: false };
  const list = html("div", { class: "elements" });
  const order = html("div", { class: "buttons", id: "lab-order" });
  const about = html("p", { class: "quiet", id: "lab-about" });
  const lanes = new Lanes(byId("lab-lanes"), tint);
  const verdicts = new Map();

  const choice = html("select", { id: "lab-function" },
    ...Object.entries(FUNCTIONS).map(([name, { title }]) => html("option", { value: name }, title)));
  choice.addEventListener("change", () => {
    const { dim } = FUNCTIONS[choice.value];
    if (dim !== FUNCTIONS[state.f].dim) {
      state.X = copy(BEGIN[dim]);
      state.P = reversal(state.X.length);
    }
    state.f = choice.value;
    changed();
  });
  const choices = html("div", { class: "buttons", id: "lab-second", role: "group", "aria-label": "Permutation of the second lane" });

  function changed() {
    const { f, dim, code, about: words } = FUNCTIONS[state.f];
    const { X, P } = state;
    const found = compare(f, X, P);
    if (found.equal || !found.p2) state.repaired = false;
    choice.value = state.f;
    about.textContent = words;
    draw();
    const key = `${state.f} ${X.length}`;
    if (!verdicts.has(key)) verdicts.set(key, verdict(f, X.length, dim));
    tell(found, verdicts.get(key));
    const second = state.repaired ? found.p2 : P;
    lanes.load({ X, ...found, order: P, second, letters: lettersOf(X), ranked: state.f === "sort_jacobian" });
    byId("lab-numbers").replaceChildren(comparison(found, state));
    showCode("lab-code", labCode(code, X, P));
    write(`f=${state.f}&X=${X.map((row) => row.join(",")).join(";")}&P=${P.join(",")}${state.repaired ? "&second=P2" : ""}`);
  }

  function tell(found, { words, tried, witness }) {
    const { P } = state;
    byId("verdict").textContent = words;
    byId("lab-cause").textContent = found.equal
      ? "Here f(PX) and Pf(X) are the same: both lanes end alike."
      : found.p2
        ? `Here f(PX) ≠ Pf(X). But P₂ = [${found.p2.join(", ")}] works in the second lane: P₂X is the same as PX, and P₂f(X) is f(PX). Only equal elements have changed places.`
        : `Here f(PX) ≠ Pf(X), and no P₂ with P₂X = PX makes the lanes end alike: the best one is off by ${found.deviation.toPrecision(2)}.`;
    const at = witness && `X = [${witness.X.map((row) => `[${row.map((v) => Number(v.toPrecision(3))).join(", ")}]`).join(", ")}] and P = [${witness.order.join(", ")}]`;
    byId("lab-tried").textContent = `The verdict comes from ${tried} pairs of a multiset of ${P.length} elements and a permutation, most of them with equal elements. ` +
      (!witness ? "For all of them f(PX) is Pf(X)." : `For example, at ${at}, f(PX) is not Pf(X), ${witness.p2 ? "but a P₂ makes them agree." : "and no P₂ makes them agree."}`);
    const option = (name, repaired) => html("button", { "aria-pressed": String(state.repaired === repaired), id: `lab-${name}`, onclick: () => { state.repaired = repaired; changed(); } }, name === "p" ? "P" : "P₂");
    choices.replaceChildren(html("span", { class: "quiet" }, "Second lane uses"), option("p", false), option("p2", true));
    choices.hidden = found.equal || !found.p2;
  }

  function draw() {
    const letters = lettersOf(state.X);
    list.replaceChildren(...state.X.map((element, i) => row(element, i, letters)));
    order.replaceChildren(
      ...state.P.map((from, place) => html("button", {
        title: "Swap with the next", "aria-label": `place ${place}: element ${from}; swap with the next`,
        onclick: () => {
          const next = (place + 1) % state.P.length;
          [state.P[place], state.P[next]] = [state.P[next], state.P[place]];
          changed();
        },
      }, String(from))),
      html("button", { id: "lab-shuffle", onclick: () => { state.P = shuffled(state.P); changed(); } }, "Shuffle"),
      html("button", { id: "lab-reverse", onclick: () => { state.P = reversal(state.X.length); changed(); } }, "Reverse"),
    );
  }

  const resized = () => {
    state.P = reversal(state.X.length);
    changed();
  };

  function row(element, i, letters) {
    const fields = element.map((value, axis) => {
      const input = html("input", { type: "number", step: 0.5, min: -FARTHEST, max: FARTHEST, value, "aria-label": `element ${i}, number ${axis}` });
      input.addEventListener("change", () => {
        const number = Number(input.value);
        if (input.value === "" || !Number.isFinite(number)) return draw();
        state.X[i][axis] = limited(number);
        changed();
      });
      return input;
    });
    return html("div", { class: "element" }, badge(letters[i], i), ...fields,
      html("button", { "aria-label": `Duplicate element ${i}`, title: "Duplicate", disabled: state.X.length >= MOST,
        onclick: () => { state.X.splice(i + 1, 0, [...element]); resized(); } }, "×2"),
      html("button", { "aria-label": `Remove element ${i}`, title: "Remove", disabled: state.X.length <= 2,
        onclick: () => { state.X.splice(i, 1); resized(); } }, "−"));
  }

  byId("lab-input").append(
    html("label", { class: "buttons" }, html("strong", {}, "f"), choice), about,
    html("p", {}, html("strong", {}, "X"), ", a multiset. Equal elements have the same letter and colour."), list,
    html("p", {}, html("strong", {}, "P"), ", the order that X is put in. Click a number to swap it with the next."), order,
    copyButton("Copy link", () => location.href));
  byId("lab-lanes").prepend(choices);

  function restore(params) {
    const f = Object.hasOwn(FUNCTIONS, params.get("f")) ? params.get("f") : "push_apart";
    const { dim } = FUNCTIONS[f];
    const X = (params.get("X") ?? "").split(";").slice(0, MOST).map((pair) => pair.split(",").map(Number));
    const valid = X.length >= 2 && X.every((element) => element.length === dim && element.every(Number.isFinite));
    state.f = f;
    state.X = valid ? X.map((element) => element.map(limited)) : copy(BEGIN[dim]);
    const P = (params.get("P") ?? "").split(",").map(Number);
    const isOrder = [...P].sort((a, b) => a - b).join() === state.X.map((_, i) => i).join();
    state.P = isOrder ? P : reversal(state.X.length);
    state.repaired = params.get("second") === "P2";
    changed();
  }
  restore(address);
  return restore;
}

function comparison({ out, ofPermuted, p2 }, { X, P }) {
  const letters = lettersOf(X);
  const shown = (element) => (element.length > 2 ? element.join(" ") : element.map((v) => v.toFixed(2)).join(", "));
  const same = (a, b) => a.every((v, i) => Math.abs(v - b[i]) < 2e-3);
  const heads = ["place", "PX", "f(PX)", "P f(X)", "", "P₂ f(X)", ""];
  const after = permuted(out, P);
  return html("div", { class: "scroll" }, html("table", { id: "lab-comparison" },
    html("thead", {}, html("tr", {}, ...heads.map((word) => html("th", { scope: "col" }, word)))),
    html("tbody", {}, ...P.map((from, place) => {
      const left = ofPermuted[place];
      const repaired = p2 ? out[p2[place]] : null;
      const judged = (ok) => html("td", { class: ok ? "right-word" : "wrong-word" }, ok ? "=" : "≠");
      return html("tr", { class: "lab-row" },
        html("td", {}, String(place)),
        html("td", {}, badge(letters[from], from), ` ${shown(X[from])}`),
        html("td", {}, shown(left)),
        html("td", {}, shown(after[place])), judged(same(left, after[place])),
        html("td", {}, repaired ? shown(repaired) : "none"), repaired ? judged(same(left, repaired)) : html("td", {}, ""));
    }))));
}

function badge(letter, index) {
  const mark = html("span", { class: "group", title: `element ${index}` }, `${letter}${"₀₁₂₃₄₅"[index]}`);
  mark.style.background = tint(letter);
  return mark;
}

const tint = (letter) => TINTS[letter.charCodeAt(0) - 97];
const copy = (X) => X.map((element) => [...element]);
const reversal = (n) => Array.from({ length: n }, (_, i) => n - 1 - i);
const limited = (value) => Math.max(-FARTHEST, Math.min(FARTHEST, value));

function lettersOf(X) {
  const groups = groupsOf(X);
  const firsts = [...new Set(groups)];
  return groups.map((first) => String.fromCharCode(97 + firsts.indexOf(first)));
}

function shuffled(order) {
  const next = [...order];
  for (let i = next.length - 1; i > 0; i--) {
    const j = Math.floor(Math.random() * (i + 1));
    [next[i], next[j]] = [next[j], next[i]];
  }
  return next;
}
