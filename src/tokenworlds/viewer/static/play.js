// The dream player: one websocket, a tree of states, and who acts.

import { find, make } from "./dom.js";
import { count, number } from "./format.js";
import { Keys, normal } from "./keys.js";
import { Tree } from "./tree.js";

const run = new URLSearchParams(location.search).get("run") ?? ".";
const MOST_WAITING = 8; // actions that are typed faster than the model dreams
let socket, about, keys, tree = null, busy = false, running = false, byAgent = false;
let waiting = [], times = [], timer = 0;

function connect() {
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  socket = new WebSocket(`${scheme}://${location.host}/api/play?${new URLSearchParams({ run })}`);
  socket.addEventListener("message", (event) => receive(JSON.parse(event.data)));
  socket.addEventListener("close", () => {
    setRunning(false);
    for (const button of document.querySelectorAll("button, select, input")) button.disabled = true;
    if (find("#problem").hidden) complain("The viewer closed the connection: load the page again.");
  });
}

function receive(answer) {
  if (answer.kind === "ready") return ready(answer);
  if (answer.kind === "state") return arrive(answer);
  busy = false;
  waiting = [];
  setRunning(false);
  complain(answer.problem);
  if (answer.kind === "failed") find("#wait").textContent = "";
}

function ready(answer) {
  about = answer;
  keys = new Keys(about.discrete ? about.actions : []);
  document.title = `${about.env} dream`;
  find("#about").textContent = [about.recipe, about.env].filter(Boolean).join(" · ");
  for (const id of ["run", "forward", "start", "branch", "time"]) find(`#${id}`).disabled = false;
  if (!about.replay_steps) {
    find("#source").value = "reset";
    find('#source option[value="replay"]').disabled = true;
  }
  find("#replay-step").max = Math.max(about.replay_steps - 1, 0);
  find("#replay-step").title = `0 to ${count(about.replay_steps - 1)}`;
  showSource();
  showActions();
  start();
}

function showActions() {
  const box = find("#actions");
  if (about.discrete) {
    box.replaceChildren(...about.actions.map((name, action) =>
      make("button", { "data-action": action, onclick: () => act(action) }, name, make("kbd", { "aria-hidden": "true" }, keys.label(action)))));
    return;
  }
  box.replaceChildren(
    ...about.actions.map((name) => make("label", { class: "slider" }, name, make("input", { type: "range", min: -1, max: 1, step: 0.05, value: 0 }))),
    make("button", { onclick: () => act(sliders()) }, "Act"));
}

const sliders = () => [...document.querySelectorAll("#actions input")].map((each) => Number(each.value));

function send(request) {
  busy = true;
  socket.send(JSON.stringify(request));
}

function start() {
  const step = find("#replay-step").value;
  tree = null;
  waiting = [];
  setRunning(false);
  say("Starting a dream…");
  send({ kind: "start", source: find("#source").value, step: step === "" ? null : Number(step) });
}

// An action of the player takes effect at the state that is shown.
function act(action) {
  if (!tree || socket.readyState !== WebSocket.OPEN) return;
  if (busy) {
    if (waiting.length < MOST_WAITING) waiting.push(action);
    return;
  }
  send({ kind: "step", from: tree.cursor, action });
}

function arrive(state) {
  busy = false;
  find("#problem").hidden = true;
  if (!tree) {
    tree = new Tree(state);
    say("Act by the keys beside the buttons.");
  } else {
    const branched = tree.add(state);
    if (branched) say(`Branch ${tree.branch + 1} from step ${count(state.step - 1)}.`);
    if (state.terminated > 0.5) {
      setRunning(false);
      waiting = [];
      say("The world model expects the episode to end here. Act on, rewind, or start a new dream.");
    }
  }
  times = [...times.slice(-20), performance.now()];
  show();
  if (waiting.length) act(waiting.shift());
  else if (running) plan();
}

function plan() {
  clearTimeout(timer);
  const last = times.at(-1) ?? 0;
  timer = setTimeout(tick, Math.max(0, last + 1000 / Number(find("#speed").value) - performance.now()));
}

function tick() {
  if (running && !busy && tree) act(nextAction());
}

function nextAction() {
  if (byAgent) return null;
  return about.discrete ? keys.action() ?? keys.idle : sliders();
}

function setRunning(on) {
  running = on;
  find("#run").textContent = on ? "⏸ Pause" : "▶ Run";
  find("#run").setAttribute("aria-pressed", on);
  if (on) plan();
}

function setActor(agent) {
  byAgent = agent;
  find("#you").setAttribute("aria-pressed", !agent);
  find("#agent").setAttribute("aria-pressed", agent);
  say(agent ? "The agent acts." : "You act.");
}

function rewind() {
  if (!tree) return;
  setRunning(false);
  waiting = [];
  tree.go(tree.current.step - 1);
  show();
}

function say(text) {
  find("#status").textContent = text;
}

function complain(text) {
  find("#problem").textContent = text;
  find("#problem").hidden = false;
}

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
  find("#reward").textContent = number(state.reward);
  find("#return").textContent = state.step ? number(tree.rewards()) : "–";
  find("#value").textContent = number(state.value);
  find("#terminated").textContent = state.terminated === null ? "–" : `${(100 * state.terminated).toFixed(1)} %`;
  find("#termination-bar").value = state.terminated ?? 0;
  for (const button of document.querySelectorAll("#actions [data-action]")) button.classList.toggle("taken", Number(button.dataset.action) === state.action);
  showBranches();
  showPolicy(state);
  showTokens(state);
  showRate();
}

function showBranches() {
  const select = find("#branch");
  if (select.options.length !== tree.leaves.length || !select.dataset.ready) {
    select.replaceChildren(...tree.leaves.map((_, index) => make("option", { value: index }, String(index + 1))));
    select.dataset.ready = "yes";
  }
  select.value = tree.branch;
}

function showPolicy(state) {
  const body = find("#policy tbody");
  if (!state.policy) {
    body.replaceChildren(make("tr", {}, make("td", {}, "This agent does not tell its policy.")));
    return;
  }
  if (body.children.length !== state.policy.length || !body.querySelector("progress")) {
    body.replaceChildren(...about.actions.map((name) => make("tr", {}, make("th", { scope: "row" }, name),
      make("td", { class: "bar" }, make("progress", { max: 1, "aria-label": name })), make("td", { class: "number" }))));
  }
  state.policy.forEach((value, index) => {
    const [, bar, text] = body.children[index].children;
    bar.firstChild.value = about.discrete ? value : (value + 1) / 2;
    text.textContent = about.discrete ? `${(100 * value).toFixed(0)} %` : number(value);
  });
}

function showTokens(state) {
  const canvas = find("#tokens");
  find("#tokens-note").textContent = !state.tokens ? "none" : state.encoded_again ? "of the decoded frame" : "sampled by the world model";
  canvas.hidden = !state.tokens;
  if (!state.tokens) return;
  const columns = state.grid ? state.grid[1] : Math.ceil(Math.sqrt(state.tokens.length));
  canvas.width = columns;
  canvas.height = Math.ceil(state.tokens.length / columns);
  const context = canvas.getContext("2d");
  state.tokens.forEach((token, index) => {
    // The golden angle keeps the hues of neighbouring tokens apart; a token keeps its colour.
    context.fillStyle = `hsl(${(token * 137.508) % 360} 62% ${42 + (token % 4) * 8}%)`;
    context.fillRect(index % columns, Math.floor(index / columns), 1, 1);
  });
  canvas.setAttribute("aria-label", `${state.tokens.length} tokens of the frame`);
}

function showRate() {
  const recent = times.filter((time) => time > performance.now() - 5000);
  const span = recent.at(-1) - recent[0];
  find("#rate").textContent = recent.length > 2 ? `${((1000 * (recent.length - 1)) / span).toFixed(1)} frames/s` : "– frames/s";
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
  if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target) || !about) return;
  const key = normal(event.key);
  if (keys.keys.has(key)) {
    // A focused button would also be pressed by space, a slider moved by arrows.
    event.preventDefault();
    keys.held.add(key);
    if (!running && !byAgent) act(keys.action(key));
  } else if (COMMANDS[key] && !event.repeat) {
    event.preventDefault();
    COMMANDS[key]();
  } else if (key === "Backspace") {
    event.preventDefault();
    rewind();
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
find("#time").addEventListener("input", (event) => {
  if (!tree) return;
  setRunning(false);
  waiting = [];
  tree.go(Number(event.target.value));
  show();
});
find("#branch").addEventListener("change", (event) => {
  setRunning(false);
  tree.chooseBranch(Number(event.target.value));
  show();
});

connect();
