// A timeline over iterations: a button, a slider, and a clock that moves it.
import { html, slider } from "./dom.js";

const still = matchMedia("(prefers-reduced-motion: reduce)");

export class Player {
  // `draw(t)` shows moment t, which may lie between two iterations; `speed` is iterations per second.
  constructor(id, draw, { name = "iteration", show = (t) => `${t} / ${this.last}`, speed = null } = {}) {
    this.draw = draw;
    this.speed = speed;
    this.last = 0;
    this.t = 0;
    this.playing = false;
    this.button = html("button", { class: "play", "aria-label": "Play" }, "▶");
    this.button.addEventListener("click", () => (this.playing ? this.stop() : this.play()));
    this.slider = slider({
      id, name, min: 0, max: 1, step: 1, value: 0, show,
      live: (t) => { this.stop(); this.at(t); },
    });
    this.elements = [this.button, this.slider.element];
  }

  // New frames of `last` iterations; stays at the end if it was there.
  load(last) {
    const atEnd = this.t >= this.last;
    this.last = last;
    this.slider.input.max = last;
    this.at(this.playing ? Math.min(this.t, last) : atEnd ? last : Math.min(this.t, last));
  }

  at(t) {
    this.t = t;
    this.slider.set(Math.round(t));
    this.draw(t);
  }

  play() {
    if (still.matches) return this.at(this.last);
    this.playing = true;
    this.button.textContent = "❚❚";
    this.button.setAttribute("aria-label", "Pause");
    let before = null;
    let t = this.t >= this.last ? 0 : this.t;
    const run = (this.run = (now) => {
      if (!this.playing || this.run !== run) return;
      const speed = (this.speed ?? Math.max(18, this.last / 4)) / 1000;
      t = Math.min(this.last, t + (before === null ? 0 : (now - before) * speed));
      before = now;
      this.at(t);
      if (t >= this.last) this.stop();
      else requestAnimationFrame(run);
    });
    requestAnimationFrame(run);
  }

  replay() {
    this.t = this.last;
    this.play();
  }

  stop() {
    this.playing = false;
    this.button.textContent = "▶";
    this.button.setAttribute("aria-label", "Play");
  }
}
