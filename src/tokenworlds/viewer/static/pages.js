// Links between the pages of a run.

import { run } from "./agent.js";
import { make } from "./dom.js";

const PAGES = [["/play", "Play"], ["/tokens", "Tokens"], ["/compare", "Side by side"]];

export function showPages(box, about) {
  box.replaceChildren(...PAGES.filter(([path]) => about.dreams || path === "/tokens").map(([path, title]) =>
    make("a", { href: `${path}?${new URLSearchParams({ run })}`, "aria-current": location.pathname === path ? "page" : null }, title)));
}
