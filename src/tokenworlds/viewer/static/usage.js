// How the tokens of an episode and of replay use the vocabulary.

import { find, make } from "./dom.js";
import { count, number } from "./format.js";
import { colour } from "./token_grid.js";

export function showUsage(usage, episode) {
  find("#usage").hidden = false;
  const rows = [["this episode", usage.episode], ["a sample of replay", usage.replay]].filter(([, found]) => found);
  find("#usage tbody").replaceChildren(...rows.map(([title, found]) => make("tr", {}, make("th", { scope: "row" }, title),
    make("td", { class: "number" }, `${count(found.used)} of ${count(found.vocabulary)}`), make("td", { class: "number" }, number(found.usage_perplexity)))));
  const own = episode.grid ? "" : " Each latent has classes of its own: they are pooled here.";
  find("#usage-note").textContent = `Perplexity: as many tokens as if all that are used were used alike.${own}`;
  if (!episode.shades) drawHistogram(usage.counts);
}

// Tokens by how often they occur, in their colours.
function drawHistogram(counts) {
  const canvas = find("#histogram");
  canvas.hidden = false;
  const used = counts.map((times, token) => [times, token]).filter(([times]) => times).sort((a, b) => b[0] - a[0]);
  canvas.width = Math.max(used.length * 4, 240);
  canvas.height = 70;
  const context = canvas.getContext("2d"), width = canvas.width / used.length;
  used.forEach(([times, token], place) => {
    const height = Math.max(1, (times / used[0][0]) * canvas.height);
    context.fillStyle = colour(token);
    context.fillRect(place * width, canvas.height - height, Math.max(width - 0.5, 0.5), height);
  });
  canvas.setAttribute("aria-label", `${used.length} tokens occur; the commonest, ${used[0][1]}, ${count(used[0][0])} times`);
}
