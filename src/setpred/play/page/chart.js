// Lines over iterations, on a logarithmic scale.
import { svg } from "./dom.js";

const LEFT = 50, RIGHT = 12, TOP = 10, BOTTOM = 36;

export class Chart {
  // `series` are names of lines, each with a class of its own.
  constructor(element, series) {
    this.series = series;
    element.setAttribute("role", "img");
    this.element = element;
    this.grid = svg("g", { class: "grid" });
    this.lines = svg("g");
    this.cursor = svg("line", { class: "cursor", y1: TOP });
    this.dots = svg("g");
    element.append(this.grid, this.lines, this.cursor, this.dots);
    // A unit is a pixel, so that labels are as large as other text wherever the chart stands.
    new ResizeObserver(() => {
      if (!this.values || element.clientWidth === this.width) return;
      this.load(this.values);
      this.at(this.t);
    }).observe(element);
    this.t = 0;
  }

  // `values` has a list for each line; null leaves a gap.
  load(values) {
    this.values = values;
    this.width = this.element.clientWidth;
    const width = Math.max(200, this.width);
    const height = Math.round(Math.max(170, Math.min(300, 0.42 * width)));
    this.element.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.cursor.setAttribute("y2", height - BOTTOM);
    const all = Object.values(values).flat().filter((v) => v !== null && v > 0);
    const low = Math.floor(Math.log10(Math.max(1e-8, Math.min(...all, 1))));
    const high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...all, 1e-7))));
    const last = Math.max(1, values[this.series[0]].length - 1);
    this.x = (t) => LEFT + ((width - LEFT - RIGHT) * t) / last;
    this.y = (v) => TOP + ((height - TOP - BOTTOM) * (high - Math.log10(Math.max(v, 10 ** low)))) / (high - low);
    this.grid.replaceChildren();
    const every = Math.ceil((high - low) / 5);
    for (let power = low; power <= high; power += every) {
      const y = this.y(10 ** power);
      this.grid.append(
        svg("line", { x1: LEFT, x2: width - RIGHT, y1: y, y2: y }),
        svg("text", { x: LEFT - 6, y: y + 4, "text-anchor": "end" }, tick(power)),
      );
    }
    for (const t of [0, Math.round(last / 2), last])
      this.grid.append(svg("text", { x: this.x(t), y: height - 18, "text-anchor": t === last ? "end" : "middle" }, String(t)));
    this.grid.append(svg("text", { x: (LEFT + width - RIGHT) / 2, y: height - 4, "text-anchor": "middle" }, "iteration"));
    this.lines.replaceChildren(...this.series.map((name) => svg("path", { class: `line ${name}`, d: this.path(values[name]) })));
    const ends = this.series.map((name) => `${name}: ${short(values[name].at(-1))}`).join(", ");
    this.element.setAttribute("aria-label", `After ${last} iterations: ${ends}`);
  }

  path(values) {
    let pen = "M";
    let path = "";
    values.forEach((v, t) => {
      if (v === null) { pen = "M"; return; }
      path += `${pen}${this.x(t).toFixed(1)} ${this.y(v).toFixed(1)}`;
      pen = "L";
    });
    return path;
  }

  at(t) {
    if (!this.values) return;
    this.t = t;
    this.cursor.setAttribute("x1", this.x(t));
    this.cursor.setAttribute("x2", this.x(t));
    this.dots.replaceChildren(
      ...this.series.flatMap((name) => {
        const v = this.values[name][Math.floor(t)];
        return v === null || v === undefined ? [] : [svg("circle", { class: `dot ${name}`, cx: this.x(Math.floor(t)), cy: this.y(v), r: 4 })];
      }),
    );
  }
}

const tick = (power) => (power >= -3 && power <= 3 ? String(Number((10 ** power).toPrecision(1))) : `1e${power}`);
export const short = (v) => (v === null || v === undefined ? "lost" : v === 0 ? "0" : v < 0.001 ? v.toExponential(1) : v.toPrecision(2));
