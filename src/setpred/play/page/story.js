// A story in five steps: what to look at, and the set and the settings that show it.
import { html } from "./dom.js";
import { digit, doubled } from "./shapes.js";

const EIGHT = [[-1.9, 1.3], [-0.7, 1.9], [0.9, 1.4], [2, 0.4], [1.2, -1.2], [-0.1, -0.3], [-1, -1.8], [-2.1, -0.5]];

export const STORY = [
  {
    title: "Random start",
    caption: "Three decoders start from the same random points. Each moves them until they encode to the same vector as your " +
      "set. FSPool, which sorts every feature, finds the 3. Sum and mean pooling end up with a blurred one.",
    points: () => digit(3, 16),
  },
  {
    title: "Equal start",
    caption: "Now all sixteen points start at one place. Sorting gives equal points different gradients, so with FSPool they " +
      "part and find the 3. A sum or a mean gives equal points equal gradients: they stay together for ever.",
    points: () => digit(3, 16),
    settings: { spread: 0 },
  },
  {
    title: "Twins",
    caption: "A multiset may hold an element twice. Here every point has a twin at the same place, and the start is equal " +
      "again. FSPool first separates all sixteen points and then brings them together in pairs.",
    points: () => doubled(EIGHT),
    settings: { spread: 0, iterations: 60 },
  },
  {
    title: "Too large a step",
    caption: "With a step of 2 the points overshoot their goal, a little more every time, until FSPool and sum pooling lose " +
      "them. You then see, faintly, the best iterate so far, which here is the start itself. Pull the step back to 0.7.",
    points: () => digit(3, 16),
    settings: { step: 2 },
  },
  {
    title: "Your own drawing",
    caption: "Press Draw and draw a line in the left plane: the points lie along it. Without the pen, drag a point, click to add " +
      "one, double-click to remove one. The address of this page holds your set and all settings: share it as a link.",
  },
];

export class Story {
  // `choose(step)` is called when a step is chosen by hand.
  constructor(root, choose) {
    this.choose = choose;
    this.chips = STORY.map(({ title }, i) =>
      html("button", { id: `story-${i + 1}`, class: "chip", onclick: () => choose(i) },
        html("b", {}, String(i + 1)), html("span", {}, title)));
    this.title = html("strong", {});
    this.caption = html("span", { id: "story-caption" });
    this.next = html("button", { id: "story-next", onclick: () => choose((this.at + 1) % STORY.length) }, "Next ▸");
    root.append(
      html("div", { class: "chips", role: "group", "aria-label": "Story" }, ...this.chips, this.next),
      html("p", { "aria-live": "polite" }, this.title, this.caption));
  }

  show(step) {
    this.at = step;
    this.chips.forEach((chip, i) => chip.setAttribute("aria-pressed", i === step));
    this.title.textContent = `${STORY[step].title}. `;
    this.caption.textContent = STORY[step].caption;
    this.next.textContent = step === STORY.length - 1 ? "Start again" : "Next ▸";
  }
}
