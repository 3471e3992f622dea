// Bars of a policy: the probability of each action, or the mean of each component.

import { make } from "./dom.js";
import { number } from "./format.js";

export function showPolicy(body, policy, about) {
  if (!policy) {
    body.replaceChildren(make("tr", {}, make("td", {}, "This agent does not tell its policy.")));
    return;
  }
  if (body.children.length !== policy.length || !body.querySelector("progress")) {
    body.replaceChildren(...about.actions.map((name) => make("tr", {}, make("th", { scope: "row" }, name),
      make("td", { class: "bar" }, make("progress", { max: 1, "aria-label": name })), make("td", { class: "number" }))));
  }
  policy.forEach((value, index) => {
    const [, bar, text] = body.children[index].children;
    bar.firstChild.value = about.discrete ? value : (value + 1) / 2;
    text.textContent = about.discrete ? `${(100 * value).toFixed(0)} %` : number(value);
  });
}
