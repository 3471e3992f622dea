// The page of a recorded episode: frames, tokens, how surprising they are, and what the agent looks at.

import { Agent, calm, say } from "./agent.js";
import { Chart, colour, onSchemeChange } from "./chart.js";
import { find, make } from "./dom.js";
import { count, number, reward } from "./format.js";
import { drawHeat, drawVeil } from "./heat.js";
import { showPages } from "./pages.js";
import { showPolicy } from "./policy.js";
import { differing, drawTokens } from "./token_grid.js";
import { showUsage } from "./usage.js";

const PIECE = 16;
const EVERY = 120; // milliseconds between frames while the episode runs
const LEAST = 0.01; // changes of the policy that are shown as none
const WAYS = {
  tokens: "Bright: where another token in its place changes the policy most. The others are tokens that the place holds elsewhere in this episode.",
  patches: "Bright: where covering the newest frame with its mean colour changes the policy most. A cover is a picture that the agent never saw.",
};
const SERIES = {
  error: "Error of the reconstruction", nll: "Surprise, nats per token", changed: "Tokens that changed",
  value: "Value", reward: "Reward", norm: "Norm of the state",
};
let about, episode = null, steps = [], at = 0, usage = null, timer = 0;
let wanted = []; // requests that wait for an answer to the last one
const saliencies = new Map(); // `${way} ${step}` → answer
const charts = new Map();

const agent = new Agent({ ready, episode: opened, steps: arrive, usage: arriveUsage, random: arriveRandom, saliency: arriveSaliency, problem: goOn, failed: () => say("") });

function ready(answer) {
  about = answer;
  document.title = `${about.env} tokens`;
  find("#about").textContent = [about.recipe, about.env].filter(Boolean).join(" · ");
  showPages(find("#pages"), about);
  find("#open").disabled = false;
  if (!about.replay_steps) {
    find("#origin").value = "play";
    find('#origin option[value="replay"]').disabled = true;
  }
  if (!about.dreams) find("#way").value = "patches";
  showOrigin();
  open();
}

function open() {
  stop();
  [steps, at, usage, episode, wanted] = [[], 0, null, null, []];
  saliencies.clear();
  calm();
  find("#random-box").hidden = true;
  say(find("#origin").value === "play" ? "The agent plays an episode…" : "Reading the episode…");
  const chosen = find("#number").value;
  ask({ kind: "episode", origin: find("#origin").value, number: chosen === "" ? null : Number(chosen) });
}

function ask(request) {
  if (!agent.open) return;
  if (agent.busy) wanted.push(request);
  else agent.send(request);
}

// What was asked for goes first, then the rest of the episode.
function pump() {
  if (agent.busy || !agent.open || !episode) return;
  if (wanted.length) agent.send(wanted.shift());
  else if (steps.length < episode.length) agent.send({ kind: "steps", from: steps.length, count: PIECE });
  else if (!usage && steps.some((step) => step.tokens)) {
    usage = {};
    agent.send({ kind: "usage" });
  }
}

// The problem is shown; what else was asked for follows.
function goOn() {
  if (!episode) say("");
  find("#no-saliency").textContent = "";
  pump();
}

function opened(answer) {
  episode = answer;
  find("#number").max = Math.max(answer.episodes - 1, 0);
  find("#number").title = `0 to ${count(answer.episodes - 1)}`;
  find("#random").hidden = !answer.compares_random;
  find("#usage").hidden = find("#histogram").hidden = true;
  find("#usage-note").textContent = answer.vocabulary ? "Counted when the episode has been read." : "This agent has no tokens.";
  find("#way").disabled = !answer.vocabulary || answer.shades;
  if (find("#way").disabled) find("#way").value = "patches";
  for (const id of ["back", "run", "forward", "time", "random"]) find(`#${id}`).disabled = false;
  pump();
}

function arrive(answer) {
  if (answer.from !== steps.length) return pump();
  steps.push(...answer.steps);
  const cut = episode.length === episode.longest ? " (its beginning)" : "";
  const whose = episode.number === null ? "Played now" : `Episode ${episode.number} of replay`;
  say(steps.length < episode.length ? `${whose}: ${steps.length} of ${episode.length} steps read…` : `${whose}: ${count(episode.length)} steps${cut}.`);
  find("#time").max = steps.length - 1;
  if (answer.from === 0) show();
  showCharts();
  pump();
}

function arriveUsage(answer) {
  usage = answer;
  showUsage(answer, episode);
  pump();
}

function arriveRandom(answer) {
  find("#random-box").hidden = answer.step !== at;
  find("#random-rows").replaceChildren(...["sampled", "random"].map((kind) => make("div", { class: "strip" }, kind,
    ...answer[kind].map((frame, index) => make("img", { src: frame, alt: `${kind} tokens, sample ${index + 1}` })))));
  pump();
}

function arriveSaliency(answer) {
  saliencies.set(`${answer.way} ${answer.step}`, answer);
  showSaliency();
  pump();
}

function go(step) {
  if (!steps.length) return;
  at = Math.max(0, Math.min(step, steps.length - 1));
  calm();
  show();
}

// The places whose token differs from the step before; null where that means nothing.
function changedAt(index) {
  const [now, before] = [steps[index], steps[index - 1]];
  if (about.changes || episode.shades || !before || now.first || !now.tokens || !before.tokens) return null;
  return differing(now.tokens, before.tokens);
}

function show() {
  const step = steps[at], changed = changedAt(at);
  find("#time").value = at;
  find("#time").setAttribute("aria-valuetext", `step ${at} of ${episode.length - 1}`);
  find("#step").textContent = `step ${count(at)}`;
  picture("#frame", step.frame);
  picture("#decoded", step.decoded);
  find("#no-decoded").hidden = Boolean(step.decoded);
  find("#no-decoded").textContent = about.changes ? "No change leads to this frame." : "This agent does not decode frames.";
  find("#error").textContent = step.error === null ? "" : `error ${number(step.error)}`;
  const kind = about.changes ? "of the change to this frame" : changed ? `${changed.size} of ${step.tokens.length} changed` : "";
  find("#tokens-note").textContent = step.tokens ? kind : "none";
  drawTokens(find("#tokens"), step.tokens, { grid: episode.grid, marked: changed ?? new Set(), shades: episode.shades, label: `${step.tokens?.length} tokens; ${kind}` });
  showSurprise(step);
  find("#action").textContent = about.discrete ? about.actions[step.action] : step.action.map(number).join(", ");
  find("#value").textContent = number(step.value);
  find("#reward").textContent = step.reward === null ? "–" : step.predicted_reward === null ? number(step.reward) : `${number(step.reward)}, predicted ${reward(step.predicted_reward)}`;
  find("#terminated").textContent = step.terminated === null ? "–" : `${(100 * step.terminated).toFixed(1)} %`;
  showPolicy(find("#policy tbody"), step.policy, about);
  for (const chart of charts.values()) chart.setMark(at);
  find("#random-box").hidden = true;
  showSaliency();
}

function picture(id, source) {
  find(id).hidden = !source;
  if (source) find(id).src = source;
}

function showSurprise(step) {
  const most = Math.max(1e-9, ...steps.flatMap((each) => each.nll ?? []));
  drawHeat(find("#nll"), step.nll, { grid: episode.grid, most, label: "Nats of each token" });
  find("#no-nll").hidden = Boolean(step.nll);
  find("#no-nll").textContent = step.first ? "Nothing predicts the first frame." : "This agent does not tell how likely a token is.";
  find("#nll-note").textContent = step.nll ? `mean ${Number(mean(step.nll).toPrecision(2))}, scale to ${Number(most.toPrecision(2))} nats` : "";
}

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

function showSaliency() {
  const on = find("#saliency-on").checked, way = find("#way").value;
  const found = on ? saliencies.get(`${way} ${at}`) : null, step = steps[at];
  find("#way-note").textContent = on ? WAYS[way] : "";
  const grid = found && (found.grid ?? episode.grid);
  picture("#looked", found && grid ? step.frame : null);
  const highest = found ? Math.max(...found.policy) : 0, most = Math.max(highest, LEAST);
  drawVeil(find("#veil"), found && grid ? found.policy : null, { grid, most, label: "Change of the policy" });
  drawHeat(find("#saliency"), found && !grid ? found.policy : null, { grid: null, most, label: "Change of the policy by token" });
  const unit = about.discrete ? "nats" : "of the mean action";
  find("#saliency-note").textContent = found ? `at most ${number(highest)} ${unit}${highest < LEAST ? ": next to nothing" : ""}` : "";
  find("#no-saliency").textContent = found ? "" : on ? "Computing…" : "Tick the box below.";
  find("#no-saliency").hidden = Boolean(found);
  clearTimeout(timer);
  if (on && !found && steps.length && !playing) timer = setTimeout(() => askSaliency(way, at), 150);
}

function askSaliency(way, step) {
  wanted = wanted.filter((request) => request.kind !== "saliency");
  if (step === at) ask({ kind: "saliency", step, way });
}

function showCharts() {
  const series = {
    error: steps.map((step) => step.error), nll: steps.map((step) => step.nll && mean(step.nll)),
    changed: steps.map((_, index) => changedAt(index)?.size ?? null), value: steps.map((step) => step.value),
    reward: steps.map((step) => step.reward), norm: steps.map((step) => step.norm),
  };
  for (const [name, values] of Object.entries(series)) {
    const known = values.flatMap((value, index) => (value === null ? [] : [index]));
    if (!known.length) continue;
    if (!charts.has(name)) {
      charts.set(name, new Chart(name, SERIES[name], 130, go));
      find("#charts").append(charts.get(name).figure);
    }
    charts.get(name).show([{ title: SERIES[name], colour: colour(0), steps: known, values: known.map((index) => values[index]) }], { weight: 0, log: false });
    charts.get(name).setMark(at);
  }
}

let playing = 0;

function stop() {
  clearInterval(playing);
  playing = 0;
  find("#run").textContent = "▶ Run";
  find("#run").setAttribute("aria-pressed", false);
}

function toggle() {
  if (playing) return stop(), showSaliency();
  if (at === steps.length - 1) at = 0;
  find("#run").textContent = "⏸ Pause";
  find("#run").setAttribute("aria-pressed", true);
  playing = setInterval(() => (at < steps.length - 1 ? go(at + 1) : stop()), EVERY);
}

const showOrigin = () => (find("#number-box").hidden = find("#origin").value !== "replay");

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches?.("select, input:not([type=checkbox])")) return;
  const command = { ArrowLeft: () => go(at - 1), ArrowRight: () => go(at + 1), p: toggle }[event.key];
  if (!command || !episode) return;
  event.preventDefault();
  command();
});
find("#open").addEventListener("click", open);
find("#origin").addEventListener("change", showOrigin);
find("#back").addEventListener("click", () => go(at - 1));
find("#forward").addEventListener("click", () => go(at + 1));
find("#run").addEventListener("click", toggle);
find("#time").addEventListener("input", (event) => go(Number(event.target.value)));
find("#saliency-on").addEventListener("change", showSaliency);
find("#way").addEventListener("change", showSaliency);
find("#random").addEventListener("click", () => ask({ kind: "random", step: at }));
onSchemeChange(() => steps.length && (showCharts(), show()));
