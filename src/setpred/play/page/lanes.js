// Two lanes of balls: permute, then apply f; or apply f, then permute. Do the balls arrive at the same places?
import { html, svg } from "./dom.js";
import { Player } from "./player.js";

const GAP = 34; // between the lanes, where each place is judged
const HEAD = 26;
const STAGES = ["start", "half way", "end"];

export class Lanes {
  constructor(root, tint) {
    this.tint = tint;
    this.picture = svg("svg", { class: "lanes", role: "img" });
    this.player = new Player("lab-moment", (t) => this.at(t), { name: "moment", show: (t) => STAGES[t], speed: 0.9 });
    this.player.load(2);
    root.append(this.picture, html("div", { class: "player" }, ...this.player.elements));
    new ResizeObserver(() => this.layout()).observe(this.picture);
  }

  // `order` permutes the input, `second` the output; `letters` tell the groups of equal elements.
  load({ X, out, ofPermuted, order, second, letters, ranked }) {
    const n = X.length;
    const height = ranked ? (row) => (2 * row.indexOf(1)) / (n - 1) - 1 : null;
    const reach = Math.max(1, ...[X, ...(ranked ? [] : [out, ofPermuted])].flat(2).map(Math.abs));
    const place = (row) => (row.length === 1 ? [0, row[0] / reach] : row.map((value) => value / reach));
    const result = (row) => (height ? [0, height(row)] : place(row));
    const text = (row) => (row.length > 1 ? "" : row[0].toFixed(2));
    const resultText = (row) => (ranked ? `rank ${row.indexOf(1) + 1}` : text(row));
    this.flat = X[0].length === 1;
    this.n = n;
    this.letters = letters;
    const goal = (permutation) => permutation.reduce((found, from, to) => ((found[from] = to), found), []);
    const first = goal(order);
    const last = goal(second);
    // Of each ball: slot, place in it and text at the three moments.
    this.lanes = [
      X.map((row, i) => [[i, place(row), text(row)], [first[i], place(row), text(row)], [first[i], result(ofPermuted[first[i]]), resultText(ofPermuted[first[i]])]]),
      X.map((row, i) => [[i, place(row), text(row)], [i, result(out[i]), resultText(out[i])], [last[i], result(out[i]), resultText(out[i])]]),
    ];
    const primed = order.join() === second.join() ? "" : "₂";
    this.titles = ["First P, then f", `First f, then P${primed}`];
    this.ends = [`f(PX)`, `P${primed}f(X)`];
    this.right = order.map((_, slot) => {
      const [a, b] = [ofPermuted[slot], out[second[slot]]];
      return a.every((value, k) => Math.abs(value - b[k]) < 1e-4 * reach);
    });
    this.layout();
    this.player.replay();
  }

  layout() {
    if (!this.lanes) return;
    const width = Math.max(240, Math.round(this.picture.clientWidth) || 600);
    this.slot = width / this.n;
    this.high = this.flat ? 132 : Math.min(this.slot - 8, 132);
    this.ball = Math.min(12, this.slot / 5.5);
    const height = 2 * (HEAD + this.high) + GAP + 2;
    this.picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.top = [HEAD, HEAD + this.high + GAP + HEAD];
    this.marks = this.right.map((ok, slot) =>
      svg("text", { class: `judged ${ok ? "right-word" : "wrong-word"}`, x: (slot + 0.5) * this.slot, y: HEAD + this.high + GAP / 2 + 7 }, ok ? "=" : "≠"));
    this.balls = this.lanes.map((lane) => lane.map((_, i) => this.makeBall(i)));
    this.others = this.lanes.map((lane, which) => lane.map((ball) => {
      const [slot, place] = ball[2];
      const ring = svg("circle", { class: "other", r: this.ball + 3 });
      this.put(ring, 1 - which, slot, place);
      if (this.right[slot]) ring.classList.add("unseen-ring");
      return ring;
    }));
    this.picture.replaceChildren(...[0, 1].flatMap((which) => this.frame(which, width)), ...this.marks, ...this.others.flat(), ...this.balls.flat());
    this.at(this.player.t);
  }

  frame(which, width) {
    const top = this.top[which];
    const slots = this.right.map((_, slot) => {
      const middle = (slot + 0.5) * this.slot;
      const side = this.flat ? Math.min(this.slot - 6, 150) : this.high;
      return svg("g", { class: "slot" },
        svg("rect", { x: middle - side / 2, y: top, width: side, height: this.high, rx: 6 }),
        svg("line", { x1: middle - side / 2, x2: middle + side / 2, y1: top + this.high / 2, y2: top + this.high / 2 }),
        ...(this.flat ? [] : [svg("line", { x1: middle, x2: middle, y1: top, y2: top + this.high })]),
        svg("text", { x: middle - side / 2 + 6, y: top + this.high - 6 }, String(slot)));
    });
    return [svg("text", { class: "lane-title", x: 2, y: top - 9 }, this.titles[which]),
      svg("text", { class: "lane-end", x: width - 2, y: top - 9, "text-anchor": "end" }, this.ends[which]), ...slots];
  }

  makeBall(i) {
    const ball = svg("circle", { r: this.ball });
    ball.style.fill = this.tint(this.letters[i]);
    return svg("g", { class: "ball" }, ball,
      svg("text", { class: "name", y: 0.5, "font-size": Math.max(9, this.ball) }, `${this.letters[i]}${"₀₁₂₃₄₅"[i]}`),
      svg("text", { class: "value", x: this.ball + 3, y: 4 }));
  }

  put(element, which, slot, [x, y]) {
    const room = this.high / 2 - this.ball - 5; // for the ring of the other lane, too
    const left = (slot + 0.5) * this.slot - (this.flat && this.slot > 70 ? 14 : 0);
    element.setAttribute("transform", `translate(${left + x * room} ${this.top[which] + this.high / 2 - y * room})`);
  }

  at(t) {
    if (!this.balls) return;
    const stage = Math.min(1, Math.floor(t));
    const fraction = eased(t - stage);
    this.lanes.forEach((lane, which) => lane.forEach((ball, i) => {
      const [slot, place, text] = ball[stage];
      const [nextSlot, nextPlace, nextText] = ball[stage + 1];
      const mix = (a, b) => a + fraction * (b - a);
      this.put(this.balls[which][i], which, mix(slot, nextSlot), place.map((value, axis) => mix(value, nextPlace[axis])));
      this.balls[which][i].lastChild.textContent = this.slot > 58 && (fraction < 0.05 || fraction > 0.95) ? (fraction < 0.5 ? text : nextText) : "";
    }));
    this.picture.classList.toggle("arrived", t >= 2);
    const same = this.right.every(Boolean);
    this.picture.setAttribute("aria-label", `Two lanes: ${this.titles.join("; ")}. The balls arrive at ${same ? "the same places" : "different places"}.`);
  }
}

const eased = (t) => (t < 0.5 ? 2 * t * t : 1 - 2 * (1 - t) ** 2);
