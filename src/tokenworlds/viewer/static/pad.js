// Continuous actions: a slider for each component, and a pad on which the pointer sets the first two.

import { make } from "./dom.js";
import { number } from "./format.js";

export class Pad {
  // acted is called when the pointer leaves the pad with a new action.
  constructor(names, acted) {
    this.sliders = names.map(() => make("input", { type: "range", min: -1, max: 1, step: 0.05, value: 0, oninput: () => this.#show() }));
    this.values = names.map(() => make("output", {}, "0"));
    const labels = names.map((name, index) => make("label", { class: "slider" }, name, this.sliders[index], this.values[index]));
    this.dot = make("i", {});
    this.area = make("div", { class: `pad${names.length < 2 ? " line" : ""}`, "aria-hidden": "true",
      title: names.length < 2 ? names[0] : `${names[0]} across, ${names[1]} up` }, this.dot);
    const move = (event) => event.buttons && this.#point(event);
    this.area.addEventListener("pointerdown", (event) => {
      this.area.setPointerCapture(event.pointerId);
      this.#point(event);
    });
    this.area.addEventListener("pointermove", move);
    this.area.addEventListener("pointerup", acted);
    this.elements = [this.area, ...labels];
    this.#show();
  }

  get action() {
    return this.sliders.map((each) => Number(each.value));
  }

  #point(event) {
    const box = this.area.getBoundingClientRect();
    const place = (value) => Math.max(-1, Math.min(1, value));
    this.sliders[0].value = place((2 * (event.clientX - box.left)) / box.width - 1);
    if (this.sliders.length > 1) this.sliders[1].value = place(1 - (2 * (event.clientY - box.top)) / box.height);
    this.#show();
  }

  #show() {
    const [x, y = 0] = this.action;
    this.dot.style.left = `${50 * (1 + x)}%`;
    this.dot.style.top = `${50 * (1 - y)}%`;
    this.action.forEach((value, index) => (this.values[index].textContent = number(value)));
  }
}
