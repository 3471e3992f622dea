// Samples of the same next step side by side: what the world model is unsure of.

import { find, make } from "./dom.js";
import { number, reward } from "./format.js";
import { differing, drawTokens } from "./token_grid.js";

const REST = 250; // milliseconds without a step before samples are drawn

export class Alternatives {
  // ask(action) requests samples; choose(state) goes on from one.
  constructor(ask, choose) {
    this.ask = ask;
    this.choose = choose;
    this.timer = 0;
    this.shown = null; // the state that the samples follow
    find("#alternatives-action").addEventListener("change", () => this.plan());
    find("#alternatives-on").addEventListener("change", () => this.plan());
    find("#again").addEventListener("click", () => this.ask(this.action));
  }

  setActions(about) {
    const names = about.discrete ? about.actions : ["your sliders"];
    find("#alternatives-action").append(...names.map((name, action) => make("option", { value: action }, name)));
  }

  // The chosen action; null for the agent's.
  get action() {
    const value = find("#alternatives-action").value;
    return value === "" ? null : Number(value);
  }

  // Ask when nobody has acted for a moment.
  plan() {
    clearTimeout(this.timer);
    this.#clear();
    if (find("#alternatives-on").checked) this.timer = setTimeout(() => this.ask(this.action), REST);
  }

  stop() {
    clearTimeout(this.timer);
    this.#clear();
  }

  #clear() {
    find("#samples").classList.add("stale");
  }

  show(states, about) {
    const box = find("#samples"), unsure = differing(...states.map((state) => state.tokens));
    box.classList.remove("stale");
    box.replaceChildren(...states.map((state, index) => this.#sample(state, index, unsure, about)));
    const first = states[0].action;
    const name = about.discrete ? about.actions[first] : first.map(number).join(", ");
    const count = states[0].tokens?.length;
    const tokens = count ? ` They differ in ${unsure.size} of ${count} tokens, which are outlined.` : "";
    find("#samples-note").textContent = `After ${name}.${tokens} Choose one to go on from it.`;
  }

  #sample(state, index, unsure, about) {
    const canvas = make("canvas", { role: "img" });
    drawTokens(canvas, state.tokens, { grid: about.grid, marked: unsure, plain: true, label: `Tokens of sample ${index + 1}` });
    return make("button", { class: "sample", onclick: () => this.choose(state), "aria-label": `Go on from sample ${index + 1}: reward ${reward(state.reward)}` },
      make("img", { src: state.frame, alt: "" }), canvas, make("span", {}, `reward ${reward(state.reward)}`));
  }
}
