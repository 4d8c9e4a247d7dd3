// A plane of points: where a decoder is, where it should be, and which belongs to which. y points up.
import { svg } from "./dom.js";

const NEAR = 0.03;

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
  }

  // `way` holds frames and pairs of every iteration, `target` the points that should be found.
  load(way, target) {
    this.way = way;
    this.target = target;
    this.targets.replaceChildren(...target.map(([x, y]) => svg("circle", { cx: x, cy: -y, r: this.radius * 1.35 })));
  }

  at(t) {
    if (!this.way) return;
    const { frames, pairs } = this.way;
    const before = Math.min(Math.floor(t), frames.length - 1);
    const after = Math.min(before + 1, frames.length - 1);
    const share = t - before;
    const now = frames[before].map((point, i) => {
      const next = frames[after][i];
      if (point[0] === null) return null;
      return next[0] === null ? point : [point[0] + share * (next[0] - point[0]), point[1] + share * (next[1] - point[1])];
    });
    const there = now.map((point, i) => [point, i]).filter(([point]) => point !== null);
    this.points.replaceChildren(...there.map(([[x, y]]) => mark(this.name, x, -y, this.radius)));
    this.links.replaceChildren(
      ...there.flatMap(([[x, y], i]) => {
        const goal = this.target[pairs[before]?.[i]];
        return goal ? [svg("line", { x1: x, y1: -y, x2: goal[0], y2: -goal[1] })] : [];
      }),
    );
    this.trails.replaceChildren(
      ...there.map(([[x, y], i]) => {
        const from = Math.max(0, before - 24);
        const past = frames.slice(from, before + 1).map((frame) => frame[i]).filter(([a]) => a !== null);
        return svg("path", { d: `M${[...past, [x, y]].map(([a, b]) => `${a} ${-b}`).join("L")}` });
      }),
    );
    this.counts.replaceChildren(
      ...piles(there.map(([point]) => point)).map(([[x, y], many]) =>
        svg("text", { x: x + this.radius * 1.6, y: -y - this.radius * 1.2 }, `×${many}`),
      ),
    );
  }
}

// Each model has a mark of its own as well as a colour.
export function mark(name, x, y, r) {
  if (name === "sum") return svg("rect", { x: x - 0.85 * r, y: y - 0.85 * r, width: 1.7 * r, height: 1.7 * r });
  if (name === "mean") return svg("path", { d: `M${x} ${y - 1.15 * r}L${x + 1.1 * r} ${y + 0.8 * r}L${x - 1.1 * r} ${y + 0.8 * r}Z` });
  return svg("circle", { cx: x, cy: y, r });
}

export const axes = () =>
  svg("g", { class: "axes" }, svg("line", { x1: -3, x2: 3, y1: 0, y2: 0 }), svg("line", { x1: 0, x2: 0, y1: -3, y2: 3 }));

// Points that lie on one another, with how many they are.
function piles(points) {
  const found = [];
  for (const point of points) {
    const pile = found.find(([[x, y]]) => Math.hypot(x - point[0], y - point[1]) < NEAR);
    if (pile) pile[1] += 1;
    else found.push([point, 1]);
  }
  // Only the largest of several piles in one place is labelled.
  const large = found.filter(([, many]) => many > 1).sort((a, b) => b[1] - a[1]);
  return large.filter(([[x, y]], i) => large.slice(0, i).every(([[a, b]]) => Math.hypot(x - a, y - b) > 0.5));
}
