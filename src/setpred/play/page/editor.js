// A plane on which points are dragged, added and removed, by pointer or by keys.
import { svg } from "./dom.js";
import { axes } from "./plane.js";
import { inside } from "./shapes.js";

const MOVES = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

export class Editor {
  // `changed(points, settled)` is called on every change, with `settled` once a drag has ended.
  constructor(element, most, changed) {
    this.element = element;
    this.most = most;
    this.changed = changed;
    this.points = [];
    this.chosen = 0;
    this.held = null;
    this.hits = [null, null]; // of the last two presses: the event of a double click does not say what was hit
    this.group = svg("g", { class: "handles" });
    element.append(axes(), this.group);
    element.addEventListener("pointerdown", (event) => this.press(event));
    element.addEventListener("pointermove", (event) => this.drag(event));
    element.addEventListener("pointerup", (event) => this.release(event));
    element.addEventListener("pointercancel", (event) => this.release(event));
    element.addEventListener("dblclick", () => {
      // Both presses must have hit the point: the first one of two in an empty place has added it.
      const [first, second] = this.hits;
      if (first !== null && first === second) this.remove(second);
    });
    element.addEventListener("keydown", (event) => this.key(event));
  }

  load(points) {
    this.points = points;
    this.chosen = points.length - 1;
    this.draw();
    this.changed(points, true);
  }

  draw() {
    while (this.group.childElementCount > this.points.length) this.group.lastChild.remove();
    while (this.group.childElementCount < this.points.length)
      this.group.append(svg("g", { tabindex: 0, role: "button", "aria-roledescription": "movable point" },
        svg("circle", { class: "reach", r: 0.3 }), svg("circle", { class: "handle", r: 0.13 })));
    this.points.forEach(([x, y], i) => {
      const handle = this.group.children[i];
      handle.dataset.index = i;
      handle.setAttribute("transform", `translate(${x} ${-y})`);
      handle.setAttribute("aria-label", `point ${i + 1} at ${x.toFixed(2)}, ${y.toFixed(2)}: arrow keys move it, Delete removes it`);
      handle.classList.toggle("held", i === this.held);
    });
  }

  place(event) {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(this.element.getScreenCTM().inverse());
    return [inside(point.x), inside(-point.y)];
  }

  press(event) {
    if (event.button) return;
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
    this.element.setPointerCapture(event.pointerId);
    this.draw();
    this.group.children[this.held].focus({ preventScroll: true });
    event.preventDefault();
    if (i === null) this.changed(this.points, false);
  }

  drag(event) {
    if (this.held === null) return;
    const [x, y] = this.place(event);
    this.points[this.held] = [inside(x + this.offset[0]), inside(y + this.offset[1])];
    this.draw();
    this.changed(this.points, false);
  }

  release() {
    if (this.held === null) return;
    this.held = null;
    this.draw();
    this.changed(this.points, true);
  }

  key(event) {
    const i = handleAt(event);
    if (i === null) return;
    this.chosen = i;
    const move = MOVES[event.key];
    if (move) {
      const by = event.shiftKey ? 0.02 : 0.1;
      this.points[i] = [inside(this.points[i][0] + by * move[0]), inside(this.points[i][1] + by * move[1])];
      this.draw();
      this.changed(this.points, false);
    } else if (event.key === "Delete" || event.key === "Backspace") this.remove(i);
    else return;
    event.preventDefault();
  }

  add() {
    if (this.points.length >= this.most) return;
    this.points.push([inside(4 * Math.random() - 2), inside(4 * Math.random() - 2)]);
    this.chosen = this.points.length - 1;
    this.draw();
    this.changed(this.points, true);
  }

  remove(i = this.chosen) {
    if (this.points.length <= 1) return;
    this.points.splice(i, 1);
    this.chosen = Math.min(i, this.points.length - 1);
    this.draw();
    this.changed(this.points, true);
  }
}

function handleAt(event) {
  const handle = event.target.closest?.("[data-index]");
  return handle ? Number(handle.dataset.index) : null;
}
