// A plane on which points are dragged, added, removed and drawn, by pointer or by keys.
import { svg } from "./dom.js";
import { axes, piles } from "./plane.js";
import { along, inside } from "./shapes.js";

const MOVES = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

export class Editor {
  // `edited(settled)` is called on every change by hand, with `settled` once it has ended.
  constructor(element, most, edited) {
    this.element = element;
    this.most = most;
    this.edited = edited;
    this.points = [];
    this.chosen = 0;
    this.held = null;
    this.pen = false;
    this.strokes = null; // drawn since the pen was taken
    this.drawing = false;
    this.hits = [null, null]; // of the last two presses: the event of a double click does not say what was hit
    this.line = svg("path", { class: "stroke" });
    this.group = svg("g", { class: "handles" });
    element.append(axes(), this.line, this.group);
    element.addEventListener("pointerdown", (event) => this.press(event));
    element.addEventListener("pointermove", (event) => this.drag(event));
    element.addEventListener("pointerup", () => this.release());
    element.addEventListener("pointercancel", () => this.release());
    element.addEventListener("dblclick", () => {
      // Both presses must have hit the point: the first one of two in an empty place has added it.
      const [first, second] = this.hits;
      if (!this.pen && first !== null && first === second) this.remove(second);
    });
    element.addEventListener("keydown", (event) => this.key(event));
  }

  load(points) {
    this.points = points;
    this.chosen = points.length - 1;
    this.draw();
  }

  takePen(pen) {
    this.pen = pen;
    this.strokes = null;
    this.element.classList.toggle("pen", pen);
    this.draw();
  }

  draw() {
    while (this.group.childElementCount > this.points.length) this.group.lastChild.remove();
    while (this.group.childElementCount < this.points.length)
      this.group.append(svg("g", { tabindex: 0, role: "button", "aria-roledescription": "movable point" },
        svg("circle", { class: "reach", r: 0.3 }), svg("circle", { class: "handle", r: 0.13 }),
        svg("circle", { class: "twin", r: 0.21 }), svg("text", { x: 0.24, y: -0.18 })));
    const many = new Map(piles(this.points).map(({ members }) => [members.at(-1), members.length]));
    this.points.forEach(([x, y], i) => {
      const handle = this.group.children[i];
      const count = many.get(i) ?? 1;
      handle.dataset.index = i;
      handle.setAttribute("transform", `translate(${x} ${-y})`);
      handle.setAttribute("aria-label", `point ${i + 1} at ${x.toFixed(2)}, ${y.toFixed(2)}: arrow keys move it, Delete removes it`);
      handle.classList.toggle("held", i === this.held);
      handle.classList.toggle("several", count > 1);
      handle.lastChild.textContent = count > 1 ? `×${count}` : "";
      handle.lastChild.setAttribute("x", x > 1.9 ? -0.8 : 0.24);
    });
    const lines = (this.strokes ?? []).map((stroke) => `M${stroke.map(([x, y]) => `${x} ${-y}`).join("L")}`);
    this.line.setAttribute("d", lines.join(""));
  }

  place(event) {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(this.element.getScreenCTM().inverse());
    return [inside(point.x), inside(-point.y)];
  }

  press(event) {
    if (event.button) return;
    if (this.pen) return this.begin(event);
    const i = handleAt(event);
    this.hits = [this.hits[1], i];
    if (i === null) {
      if (this.points.length >= this.most) return;
      this.points.push(this.place(event));
    }
    this.held = this.chosen = i ?? this.points.length - 1;
    // A point stays where it is under the finger, wherever in its reach it was taken.
    const [x, y] = this.place(event);
    this.offset = [this.points[this.held][0] - x, this.points[this.held][1] - y];
    this.moved = i === null;
    this.element.setPointerCapture(event.pointerId);
    this.draw();
    this.group.children[this.held].focus({ preventScroll: true });
    event.preventDefault();
    if (i === null) this.edited(false);
  }

  drag(event) {
    if (this.drawing) return this.trace(event);
    if (this.held === null) return;
    const [x, y] = this.place(event);
    const to = [inside(x + this.offset[0]), inside(y + this.offset[1])];
    if (to.join() === this.points[this.held].join()) return;
    this.moved = true;
    this.points[this.held] = to;
    this.draw();
    this.edited(false);
  }

  release() {
    if (this.held === null && !this.drawing) return;
    const changed = this.drawing ? this.strokes.at(-1).length > 1 : this.moved;
    if (this.drawing && !changed) this.strokes = this.strokes.length > 1 ? this.strokes.slice(0, -1) : null;
    this.held = null;
    this.drawing = false;
    this.draw();
    if (changed) this.edited(true);
  }

  begin(event) {
    this.drawing = true;
    this.strokes ??= [];
    this.strokes.push([this.place(event)]);
    this.element.setPointerCapture(event.pointerId);
    event.preventDefault();
  }

  trace(event) {
    const stroke = this.strokes.at(-1);
    const to = this.place(event);
    if (Math.hypot(to[0] - stroke.at(-1)[0], to[1] - stroke.at(-1)[1]) < 0.03) return;
    stroke.push(to);
    this.points = along(this.strokes, this.points.length);
    this.draw();
    this.edited(false);
  }

  key(event) {
    const i = handleAt(event);
    if (i === null) return;
    this.chosen = i;
    const move = MOVES[event.key];
    if (move) {
      this.strokes = null;
      const by = event.shiftKey ? 0.02 : 0.1;
      this.points[i] = [inside(this.points[i][0] + by * move[0]), inside(this.points[i][1] + by * move[1])];
      this.draw();
      this.edited(false);
    } else if (event.key === "Delete" || event.key === "Backspace") this.remove(i);
    else return;
    event.preventDefault();
  }

  add() {
    if (this.points.length >= this.most) return;
    this.strokes = null;
    this.points.push([inside(4 * Math.random() - 2), inside(4 * Math.random() - 2)]);
    this.chosen = this.points.length - 1;
    this.draw();
    this.edited(true);
  }

  remove(i = this.chosen) {
    if (this.points.length <= 1) return;
    this.strokes = null;
    this.points.splice(i, 1);
    this.chosen = Math.min(i, this.points.length - 1);
    this.draw();
    this.edited(true);
  }
}

function handleAt(event) {
  const handle = event.target.closest?.("[data-index]");
  return handle ? Number(handle.dataset.index) : null;
}
