// Where the viewer serves several saved agents, the player chooses among them.

import { find, make } from "./dom.js";

const { agents, start } = await (await fetch("/api/agents")).json();
const shown = new URLSearchParams(location.search).get("run") ?? start;
if (agents.length > 1) {
  find("#chosen").replaceChildren(...agents.map((name) => make("option", { value: name }, name)));
  find("#chosen").value = shown;
  find("#chosen").addEventListener("change", (event) => {
    location.search = new URLSearchParams({ run: event.target.value });
  });
  find("#chooser").hidden = false;
}
