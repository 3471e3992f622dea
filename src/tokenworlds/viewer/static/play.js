// The dream player: a tree of states, and who acts.

import { Agent, calm, say } from "./agent.js";
import { Alternatives } from "./alternatives.js";
import { find, make } from "./dom.js";
import { count, number, reward } from "./format.js";
import { Keys, normal } from "./keys.js";
import { showPages } from "./pages.js";
import { showPolicy } from "./policy.js";
import { Pad } from "./pad.js";
import { drawTokens } from "./token_grid.js";
import { Tree } from "./tree.js";

const MOST_WAITING = 8; // actions that are typed faster than the model dreams
let about, keys, pad = null, tree = null, running = false, byAgent = false;
let waiting = [], times = [], timer = 0;

const agent = new Agent({ ready, state: arrive, alternatives: arriveAlternatives, problem: halt, failed: halt, closed: () => setRunning(false) });
const alternatives = new Alternatives(askAlternatives, goOn);

function halt(answer) {
  waiting = [];
  setRunning(false);
  if (answer.kind === "failed" || !tree) find("#wait").textContent = "";
}

function ready(answer) {
  about = answer;
  keys = new Keys(about.discrete ? about.actions : []);
  document.title = `${about.env} dream`;
  find("#about").textContent = [about.recipe, about.env].filter(Boolean).join(" · ");
  showPages(find("#pages"), about);
  for (const id of ["run", "forward", "start", "branch", "time", "again"]) find(`#${id}`).disabled = false;
  if (!about.replay_steps) {
    find("#source").value = "reset";
    find('#source option[value="replay"]').disabled = true;
  }
  find("#replay-step").max = Math.max(about.replay_steps - 1, 0);
  find("#replay-step").title = `0 to ${count(about.replay_steps - 1)}`;
  showSource();
  showActions();
  alternatives.setActions(about);
  start();
}

function showActions() {
  const box = find("#actions");
  if (!about.discrete) {
    pad = new Pad(about.actions, () => !running && !byAgent && act(pad.action));
    box.replaceChildren(...pad.elements, make("button", { onclick: () => act(pad.action) }, "Act", make("kbd", { "aria-hidden": "true" }, "Enter")));
    return;
  }
  box.replaceChildren(...about.actions.map((name, action) =>
    make("button", { "data-action": action, onclick: () => act(action) }, name, make("kbd", { "aria-hidden": "true" }, keys.label(action)))));
}

function start() {
  const step = find("#replay-step").value;
  tree = null;
  waiting = [];
  setRunning(false);
  alternatives.stop();
  say("Starting a dream…");
  agent.send({ kind: "start", source: find("#source").value, step: step === "" ? null : Number(step) });
}

// An action of the player takes effect at the state that is shown.
function act(action) {
  if (!tree || !agent.open) return;
  if (agent.busy) {
    if (waiting.length < MOST_WAITING) waiting.push(action);
    return;
  }
  alternatives.stop();
  agent.send({ kind: "step", from: tree.cursor, action });
}

function arrive(state) {
  calm();
  if (!tree) {
    tree = new Tree(state);
    say(about.discrete ? "Act by the keys beside the buttons." : "Act by the sliders, or by pointing at the pad.");
  } else {
    add(state);
  }
  times = [...times.slice(-20), performance.now()];
  show();
  if (waiting.length) act(waiting.shift());
  else if (running) plan();
}

function add(state) {
  const news = [];
  if (tree.add(state)) news.push(`Branch ${tree.branch + 1} from step ${count(state.step - 1)}.`);
  if (state.terminated > 0.5) {
    setRunning(false);
    waiting = [];
    news.push("The world model expects the episode to end here. Act on, rewind, or start a new dream.");
  }
  if (news.length) say(news.join(" "));
}

function askAlternatives(action) {
  if (tree && !running && !agent.busy && agent.open) agent.send({ kind: "alternatives", from: tree.cursor, action: action === null || about.discrete ? action : pad.action });
}

function arriveAlternatives(answer) {
  if (tree?.cursor === answer.from) alternatives.show(answer.states, about);
  if (waiting.length) act(waiting.shift());
  else if (running) plan();
}

function goOn(state) {
  if (state.parent !== tree.cursor) return;
  add(state);
  show();
}

function plan() {
  clearTimeout(timer);
  const last = times.at(-1) ?? 0;
  timer = setTimeout(tick, Math.max(0, last + 1000 / Number(find("#speed").value) - performance.now()));
}

function tick() {
  if (running && !agent.busy && tree) act(nextAction());
}

function nextAction() {
  if (byAgent) return null;
  return about.discrete ? keys.action() ?? keys.idle : pad.action;
}

function setRunning(on) {
  running = on;
  find("#run").textContent = on ? "⏸ Pause" : "▶ Run";
  find("#run").setAttribute("aria-pressed", on);
  if (on) plan();
  else if (tree) alternatives.plan();
}

function setActor(agentActs) {
  byAgent = agentActs;
  find("#you").setAttribute("aria-pressed", !agentActs);
  find("#agent").setAttribute("aria-pressed", agentActs);
  say(agentActs ? "The agent acts." : "You act.");
}

function move(change) {
  if (!tree) return;
  setRunning(false);
  waiting = [];
  change();
  show();
}

const rewind = () => move(() => tree.go(tree.current.step - 1));

function show() {
  const state = tree.current, path = tree.path();
  const image = find("#frame");
  image.src = state.frame;
  image.hidden = false;
  find("#wait").hidden = true;
  const time = find("#time");
  time.max = path.length - 1;
  time.value = state.step;
  time.setAttribute("aria-valuetext", `step ${state.step} of ${path.length - 1}`);
  find("#step").textContent = `step ${count(state.step)}`;
  find("#back").disabled = state.step === 0;
  find("#reward").textContent = reward(state.reward);
  find("#return").textContent = state.step ? reward(tree.rewards()) : "–";
  find("#value").textContent = number(state.value);
  find("#terminated").textContent = state.terminated === null ? "–" : `${(100 * state.terminated).toFixed(1)} %`;
  find("#termination-bar").value = state.terminated ?? 0;
  for (const button of document.querySelectorAll("#actions [data-action]")) button.classList.toggle("taken", Number(button.dataset.action) === state.action);
  showBranches();
  showPolicy(find("#policy tbody"), state.policy, about);
  find("#tokens-note").textContent = state.tokens ? (about.changes ? "of the change to this frame" : "of this frame") : "none";
  drawTokens(find("#tokens"), state.tokens, { grid: about.grid });
  showRate();
  if (!running && !waiting.length) alternatives.plan();
}

function showBranches() {
  const select = find("#branch");
  if (select.options.length !== tree.leaves.length || !select.dataset.ready) {
    select.replaceChildren(...tree.leaves.map((_, index) => make("option", { value: index }, String(index + 1))));
    select.dataset.ready = "yes";
  }
  select.value = tree.branch;
}

function showRate() {
  const recent = times.filter((time) => time > performance.now() - 5000);
  const span = recent.at(-1) - recent[0];
  // A pause keeps the last rate.
  if (recent.length > 2) find("#rate").textContent = `${((1000 * (recent.length - 1)) / span).toFixed(1)} frames/s`;
}

function showSource() {
  find("#replay-box").hidden = find("#source").value !== "replay";
}

const COMMANDS = {
  p: () => setRunning(!running),
  g: () => setActor(!byAgent),
  n: start,
  ".": () => act(nextAction()),
  Backspace: rewind,
};

function typing(target) {
  return target.matches?.("select, input:not([type=range])") || (target.matches?.("input") && target.closest("#actions"));
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !about || !agent.open) return;
  if (event.key === "Enter" && event.target.closest?.("#actions .slider")) act(pad.action);
  if (typing(event.target)) return;
  const key = normal(event.key);
  if (keys.keys.has(key)) {
    // A focused button would also be pressed by space, a slider moved by arrows.
    event.preventDefault();
    keys.held.add(key);
    if (!running && !byAgent) act(keys.action(key));
  } else if (COMMANDS[key] && (!event.repeat || key === "Backspace")) {
    event.preventDefault();
    COMMANDS[key]();
  }
});
addEventListener("keyup", (event) => keys?.held.delete(normal(event.key)));
addEventListener("blur", () => keys?.held.clear());
find("#run").addEventListener("click", () => setRunning(!running));
find("#back").addEventListener("click", rewind);
find("#forward").addEventListener("click", () => act(nextAction()));
find("#start").addEventListener("click", start);
find("#you").addEventListener("click", () => setActor(false));
find("#agent").addEventListener("click", () => setActor(true));
find("#source").addEventListener("change", showSource);
find("#speed").addEventListener("input", (event) => (find("#speed-value").textContent = `${event.target.value}/s`));
find("#time").addEventListener("input", (event) => move(() => tree.go(Number(event.target.value))));
find("#branch").addEventListener("change", (event) => move(() => tree.chooseBranch(Number(event.target.value))));
