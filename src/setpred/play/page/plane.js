// A plane of points: where a decoder is, where it should be, and which belongs to which. y points up.
import { short } from "./chart.js";
import { svg } from "./dom.js";

const NEAR = 0.03;
const EDGE = 3.1;

export class Plane {
  constructor(element, name, radius = 0.13) {
    this.name = name;
    this.radius = radius;
    this.links = svg("g", { class: "links" });
    this.trails = svg("g", { class: `trails ${name}` });
    this.targets = svg("g", { class: "targets" });
    this.points = svg("g", { class: `found ${name}` });
    this.counts = svg("g", { class: "counts" });
    element.append(axes(), this.links, this.trails, this.targets, this.points, this.counts);
    this.element = element;
  }

  // `descent` holds frames, pairs, inner loss and error of every iteration, `target` the points that should be found.
  load(descent, target) {
    this.descent = descent;
    this.target = target;
    this.best = best(descent);
    const rings = piles(target).flatMap(({ place: [x, y], members }) =>
      members.slice(1, 3).map((_, k) => svg("circle", { cx: x, cy: -y, r: this.radius * (1.95 + 0.6 * k) })));
    this.targets.replaceChildren(...target.map(([x, y]) => svg("circle", { cx: x, cy: -y, r: this.radius * 1.35 })), ...rings);
  }

  at(t) {
    if (!this.descent) return;
    const { frames, pairs } = this.descent;
    const lost = isLost(this.descent, Math.min(Math.floor(t), frames.length - 1));
    this.element.classList.toggle("lost", lost);
    const shown = lost ? this.best : t;
    const before = Math.min(Math.floor(shown), frames.length - 1);
    const after = Math.min(before + 1, frames.length - 1);
    const fraction = shown - before;
    const now = frames[before].map((point, i) => {
      const next = frames[after][i];
      return next[0] === null || lost ? point : point.map((value, axis) => value + fraction * (next[axis] - value));
    });
    this.points.replaceChildren(...now.map(([x, y]) => mark(this.name, x, -y, this.radius)));
    this.links.replaceChildren(
      ...now.flatMap(([x, y], i) => {
        const goal = this.target[pairs[before]?.[i]];
        return goal ? [svg("line", { x1: x, y1: -y, x2: goal[0], y2: -goal[1] })] : [];
      }),
    );
    this.trails.replaceChildren(
      ...now.map(([x, y], i) => {
        const past = frames.slice(Math.max(0, before - 24), before + 1).map((frame) => frame[i]);
        return svg("path", { d: `M${[...past, [x, y]].map(([a, b]) => `${a} ${-b}`).join("L")}` });
      }),
    );
    // Only the largest of several piles in one place is labelled.
    const large = piles(now).sort((a, b) => b.members.length - a.members.length);
    const apart = large.filter(({ place: [x, y] }, i) => large.slice(0, i).every(({ place: [a, b] }) => Math.hypot(x - a, y - b) > 0.5));
    this.counts.replaceChildren(
      ...apart.map(({ place: [x, y], members }) => {
        const side = x > 1.9 ? -1 : 1;
        const at = { x: x + side * this.radius * 1.6, y: -y - this.radius * 1.2, "text-anchor": side < 0 ? "end" : "start" };
        return svg("text", at, `×${members.length}`);
      }),
    );
  }
}

// The finite iterate of the lowest inner loss, which is all that a decoder can judge by.
function best({ inner }) {
  return inner.reduce((found, loss, t) => (loss !== null && (inner[found] === null || loss < inner[found]) ? t : found), 0);
}

// Whether iterate t is no number any more, or all of it lies outside the plane.
const isLost = ({ frames }, t) =>
  frames[t].every(([x, y]) => x === null || Math.abs(x) > EDGE || Math.abs(y) > EDGE);

// What a caption says of iterate t.
export function judged(descent, t) {
  const lost = isLost(descent, t);
  return lost ? `diverged; best ${short(descent.error[best(descent)])}` : `error ${short(descent.error[t])}`;
}

// Each model has a mark of its own as well as a colour.
export function mark(name, x, y, r) {
  if (name === "sum") return svg("rect", { x: x - 0.85 * r, y: y - 0.85 * r, width: 1.7 * r, height: 1.7 * r });
  if (name === "mean") return svg("path", { d: `M${x} ${y - 1.15 * r}L${x + 1.1 * r} ${y + 0.8 * r}L${x - 1.1 * r} ${y + 0.8 * r}Z` });
  return svg("circle", { cx: x, cy: y, r });
}

export const axes = () =>
  svg("g", { class: "axes" }, svg("line", { x1: -3, x2: 3, y1: 0, y2: 0 }), svg("line", { x1: 0, x2: 0, y1: -3, y2: 3 }));

// Points that lie on one another: where, and which they are.
export function piles(points) {
  const found = [];
  points.forEach((point, i) => {
    const pile = found.find(({ place: [x, y] }) => Math.hypot(x - point[0], y - point[1]) < NEAR);
    if (pile) pile.members.push(i);
    else found.push({ place: point, members: [i] });
  });
  return found.filter(({ members }) => members.length > 1);
}
