// Dream and reality under the same actions, and how fast they part over many dreams.

import { Agent, calm, say } from "./agent.js";
import { Chart, colour, onSchemeChange } from "./chart.js";
import { find, make } from "./dom.js";
import { count, number, reward } from "./format.js";
import { HorizonChart } from "./horizon_chart.js";
import { showPages } from "./pages.js";
import { differing, drawTokens } from "./token_grid.js";

const STEPS = 48;
const EVERY = 200; // milliseconds between frames while the comparison runs
let about, episode = null, found = null, at = 0, playing = 0, many = null;

const agent = new Agent({ ready, episode: opened, compare: arrive, horizon: arriveHorizon, problem: settle, failed: () => say("") });
const horizon = new HorizonChart(find("#horizon"));
const chart = new Chart("error", "Error of the frames", 150, (step) => go(found.steps.findIndex((each) => each.step === step)));
find("#charts").append(chart.figure);

function ready(answer) {
  about = answer;
  document.title = `${about.env} side by side`;
  find("#about").textContent = [about.recipe, about.env].filter(Boolean).join(" · ");
  showPages(find("#pages"), about);
  if (!about.replay_steps) {
    find("#origin").value = "play";
    find('#origin option[value="replay"]').disabled = true;
  }
  showOrigin();
  open();
}

function send(request) {
  if (agent.busy || !agent.open) return;
  calm();
  agent.send(request);
  enable(false);
}

function enable(on) {
  for (const id of ["open", "dream", "many"]) find(`#${id}`).disabled = !on;
}

function settle() {
  enable(true);
  many = null;
  find("#many-status").textContent = "";
}

function open() {
  stop();
  say(find("#origin").value === "play" ? "The agent plays an episode…" : "Reading the episode…");
  const chosen = find("#number").value;
  send({ kind: "episode", origin: find("#origin").value, number: chosen === "" ? null : Number(chosen) });
}

function opened(answer) {
  episode = answer;
  find("#number").max = Math.max(answer.episodes - 1, 0);
  find("#from").max = Math.max(answer.length - 2, 0);
  find("#from").value = Math.min(Number(find("#from").value) || Math.floor(answer.length / 4), Math.max(answer.length - 2, 0));
  dream();
}

function dream() {
  stop();
  say("Dreaming…");
  send({ kind: "compare", start: Number(find("#from").value), steps: STEPS });
}

function arrive(answer) {
  found = answer;
  enable(true);
  for (const id of ["back", "run", "forward", "time"]) find(`#${id}`).disabled = false;
  find("#time").max = found.steps.length - 1;
  const whose = episode.number === null ? "An episode played now" : `Episode ${episode.number} of replay`;
  say(`${whose}, ${count(episode.length)} steps; the dream imagines ${found.steps.length} of them.`);
  find("#parting").textContent = parting();
  showChart();
  go(0);
}

function parting() {
  const { tokens_part: tokens, frames_part: frames, steps } = found;
  const start = steps[0].step - 1, after = (step) => `after ${step - start} ${step - start === 1 ? "step" : "steps"} (step ${count(step)})`;
  const which = steps.find((each) => each.step === tokens);
  const places = which ? [...differing(which.tokens, which.real_tokens)].map((place) => place + 1) : [];
  const list = places.length > 6 ? `${places.slice(0, 6).join(", ")} and ${places.length - 6} more` : places.join(", ");
  return [
    frames === null ? "The frames do not part visibly." : `The frames part visibly ${after(frames)}.`,
    steps[0].tokens && steps[0].real_tokens ? (tokens === null ? "The tokens do not part." : `The tokens part ${after(tokens)}, at ${places.length > 1 ? "tokens" : "token"} ${list}.`) : "",
  ].join(" ");
}

function go(place) {
  if (!found) return;
  at = Math.max(0, Math.min(place, found.steps.length - 1));
  const step = found.steps[at];
  find("#time").value = at;
  find("#time").setAttribute("aria-valuetext", `step ${step.step}, ${at + 1} imagined`);
  find("#step").textContent = `step ${count(step.step)}`;
  picture("#real", step.real);
  picture("#dreamed", step.frame);
  picture("#decoded", step.decoded);
  find("#real-note").textContent = `reward ${reward(step.real_reward)}`;
  find("#dream-note").textContent = `reward ${reward(step.reward)}, error ${number(step.error)}`;
  const apart = differing(step.tokens, step.real_tokens), options = { grid: about.grid, marked: apart };
  find("#tokens-note").textContent = step.real_tokens ? `${apart.size} of ${step.real_tokens.length} differ` : "none";
  drawTokens(find("#real-tokens"), step.real_tokens, { ...options, label: `Real tokens, ${apart.size} differ` });
  drawTokens(find("#dream-tokens"), step.tokens, { ...options, label: `Tokens of the dream, ${apart.size} differ` });
  chart.setMark(step.step);
}

function picture(id, source) {
  find(id).hidden = !source;
  if (source) find(id).src = source;
}

function showChart() {
  find("#legend").replaceChildren(...["dream", "a still picture: the frame at the start"].map((title, index) => make("li", {}, make("i", { style: `background:${colour(index)}` }), title)));
  const steps = found.steps.map((step) => step.step);
  chart.show([
    { title: "dream", colour: colour(0), steps, values: found.steps.map((step) => step.error) },
    { title: "still picture", colour: colour(1), steps, values: found.steps.map((step) => step.still) },
  ], { weight: 0, log: false });
}

function startMany() {
  many = find("#origin").value;
  find("#many-status").textContent = "Collecting starts…";
  send({ kind: "horizon", origin: many, anew: true });
}

function arriveHorizon(answer) {
  enable(true);
  find("#horizon").hidden = false;
  horizon.show(answer.curves);
  const over = answer.done >= answer.starts;
  find("#many-status").textContent = `${answer.done} of ${answer.starts} dreams.`;
  if (!over && many) send({ kind: "horizon", origin: many, anew: false });
}

function stop() {
  clearInterval(playing);
  playing = 0;
  find("#run").textContent = "▶ Run";
  find("#run").setAttribute("aria-pressed", false);
}

function toggle() {
  if (playing) return stop();
  if (at === found.steps.length - 1) go(0);
  find("#run").textContent = "⏸ Pause";
  find("#run").setAttribute("aria-pressed", true);
  playing = setInterval(() => (at < found.steps.length - 1 ? go(at + 1) : stop()), EVERY);
}

const showOrigin = () => (find("#number-box").hidden = find("#origin").value !== "replay");

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !found || event.target.matches?.("select, input")) return;
  const command = { ArrowLeft: () => go(at - 1), ArrowRight: () => go(at + 1), p: toggle }[event.key];
  if (!command) return;
  event.preventDefault();
  command();
});
find("#open").addEventListener("click", open);
find("#dream").addEventListener("click", dream);
find("#many").addEventListener("click", startMany);
find("#origin").addEventListener("change", showOrigin);
find("#back").addEventListener("click", () => go(at - 1));
find("#forward").addEventListener("click", () => go(at + 1));
find("#run").addEventListener("click", toggle);
find("#time").addEventListener("input", (event) => go(Number(event.target.value)));
onSchemeChange(() => {
  if (found) showChart();
  if (horizon.curves) horizon.show(horizon.curves);
});
