// The page of runs: a table, and curves of those that are ticked.

import { Chart, colour, onSchemeChange } from "./chart.js";
import { Curves } from "./curves.js";
import { find, make } from "./dom.js";
import { count, duration, number } from "./format.js";

const EVERY = 1000;
const FIRST = 4; // runs that are ticked at the beginning
const RETURNS = ["evaluation/return", "collect/return"];

const LINKS = [["/play", "Play", "Play in the dream"], ["/tokens", "Tokens", "Tokens"], ["/compare", "Compare", "Dream and reality side by side"]];

const curves = new Curves();
const chosen = new Map(); // name of a run → index of its colour
const charts = new Map(); // metric → Chart
const groups = new Map(); // title of a group → {box, holder}
let rows = [], started = false, settings = { weight: 0, log: false };

async function refresh() {
  const live = find("#live");
  try {
    const response = await fetch("/api/runs");
    if (!response.ok) throw new Error((await response.text()).slice(0, 200));
    const answer = await response.json();
    rows = answer.runs;
    find("#folder").textContent = answer.folder;
    chooseFirst();
    showRows(answer.folder);
    await refreshCurves();
    setText(live, "Live");
    live.classList.remove("lost");
  } catch (error) {
    setText(live, error instanceof TypeError ? "The viewer does not answer; trying again" : error.message);
    live.classList.add("lost");
  }
}

// A status that is set again would be read out again.
function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function chooseFirst() {
  const there = new Set(rows.map((row) => row.name));
  for (const name of [...chosen.keys()]) if (!there.has(name)) unchoose(name);
  if (started || !rows.length) return;
  started = true;
  const order = [...rows].sort((a, b) => (b.state === "running") - (a.state === "running") || b.changed - a.changed);
  const names = new Set(order.filter((row) => row.state !== "damaged").slice(0, FIRST).map((row) => row.name));
  for (const row of rows) if (names.has(row.name)) choose(row.name);
}

function choose(name) {
  const used = new Set(chosen.values());
  let index = 0;
  while (used.has(index)) index += 1;
  chosen.set(name, index);
}

function unchoose(name) {
  chosen.delete(name);
  curves.forget(name);
}

const shown = new Map(); // name → {key, element}

function showRows(folder) {
  const body = find("#runs tbody");
  find("#runs").hidden = !rows.length;
  find("#empty").hidden = rows.length > 0;
  setText(find("#empty"), rows.length ? "" : `There are no runs in ${folder} yet. Runs appear here when they start.`);
  const names = new Set(rows.map((row) => row.name));
  for (const [name, old] of shown) {
    if (!names.has(name)) {
      old.element.remove();
      shown.delete(name);
    }
  }
  rows.forEach((row, place) => {
    const key = JSON.stringify([row, chosen.get(row.name), colour(0)]);
    let entry = shown.get(row.name);
    if (entry?.key !== key) {
      const focused = entry?.element.contains(document.activeElement) ? document.activeElement.tagName : null;
      const element = rowElement(row);
      if (entry) entry.element.replaceWith(element);
      entry = { key, element };
      shown.set(row.name, entry);
      if (focused) element.querySelector(focused)?.focus();
    }
    if (body.children[place] !== entry.element) body.insertBefore(entry.element, body.children[place] ?? null);
  });
}

function rowElement(row) {
  const index = chosen.get(row.name);
  const tick = make("input", { type: "checkbox", onchange: (event) => toggle(row.name, event.target.checked) });
  tick.checked = index !== undefined;
  const about = [row.recipe && `${row.recipe} ${row.size}`, row.env, row.seed !== null && `seed ${row.seed}`].filter(Boolean);
  const name = make("span", {}, make("span", { class: "name" }, row.title), make("br"), make("span", { class: "about" }, about.join(" · ")));
  const label = make("label", {}, tick, name);
  const cells = [
    make("td", { class: "run", style: index === undefined ? "" : `--run:${colour(index)}` }, label),
    make("td", { "data-label": "State", class: row.problem ? "wide" : "" }, make("span", { class: `state ${row.state}` }, row.state),
      ...(row.problem ? [make("p", { class: "problem" }, row.problem)] : [])),
    stepsCell(row),
    make("td", { class: `number${row.score === null ? " empty" : ""}`, "data-label": "Return" }, number(row.score), ...(row.score_kind ? [make("span", { class: "kind" }, row.score_kind)] : [])),
    make("td", { class: `number${row.speed === null ? " empty" : ""}`, "data-label": "Steps/s" }, number(row.speed)),
    make("td", { class: `number${row.seconds_left === null ? " empty" : ""}`, "data-label": "Time left" }, duration(row.seconds_left)),
    make("td", { class: row.opens ? "wide links" : "empty" }, ...LINKS.filter(([path]) => row.dreams || (row.opens && path === "/tokens")).map(([path, title, what]) => linkTo(row, path, title, what))),
  ];
  return make("tr", { "data-run": row.name }, ...cells);
}

function linkTo(row, path, title, what) {
  return make("a", { class: "button", href: `${path}?${new URLSearchParams({ run: row.name })}`, "aria-label": `${what} of ${row.title}` }, title);
}

function stepsCell(row) {
  const cell = make("td", { class: `number${row.steps === null ? " empty" : ""}`, "data-label": "Steps" });
  if (row.steps === null) {
    cell.append("–");
    return cell;
  }
  const share = row.steps ? Math.min(row.step / row.steps, 1) : 0;
  cell.append(`${count(row.step)} of ${count(row.steps)}`, make("progress", { max: 1, value: share, "aria-label": `${Math.round(share * 100)} % of the steps` }));
  return cell;
}

async function toggle(name, on) {
  if (on) choose(name);
  else unchoose(name);
  showRows("");
  showCurves();
  await refreshCurves();
}

async function refreshCurves() {
  const names = [...chosen.keys()];
  const changed = await Promise.all(names.map((name) => curves.update(name)));
  if (changed.some(Boolean) || !groups.size) showCurves();
}

function groupOf(metric) {
  if (RETURNS.includes(metric)) return "Returns";
  const [learner, kind] = metric.split("/");
  return kind === "loss" ? `${learner} losses` : "Other metrics";
}

function titleOf(metric) {
  return metric.includes("/loss/") ? metric.split("/").slice(2).join("/") : metric.replace("/", " ");
}

function groupElement(title) {
  const holder = make("div", { class: "charts" });
  const lower = title.toLowerCase();
  const box = title === "Other metrics"
    ? make("details", { class: "group", ontoggle: showCurves }, make("summary", {}, title), holder)
    : make("section", { class: `group ${lower}`, "aria-label": title }, make("h3", {}, title), holder);
  return { box, holder };
}

function showCurves() {
  const names = [...chosen.keys()];
  const metrics = curves.metrics(names);
  const problems = names.map((name) => curves.runs.get(name)?.problem).filter(Boolean);
  find("#curves-problem").hidden = !problems.length;
  setText(find("#curves-problem"), problems.join(" "));
  find("#curves-empty").hidden = metrics.length > 0;
  setText(find("#curves-empty"), names.length ? "No values yet: they appear with the first log event." : "Tick a run to see its curves.");
  for (const [metric, chart] of charts) {
    if (!metrics.includes(metric)) {
      chart.destroy();
      charts.delete(metric);
    }
  }
  const wanted = [...new Set([...(metrics.some((metric) => RETURNS.includes(metric)) ? ["Returns"] : []),
    ...metrics.map(groupOf).filter((title) => title.endsWith("losses")).sort().reverse(),
    ...(metrics.map(groupOf).includes("Other metrics") ? ["Other metrics"] : [])])];
  for (const [title, group] of groups) {
    if (!wanted.includes(title)) {
      group.box.remove();
      groups.delete(title);
    }
  }
  wanted.forEach((title, place) => showGroup(title, place, metrics.filter((metric) => groupOf(metric) === title), names));
}

function showGroup(title, rank, metrics, names) {
  if (!groups.has(title)) groups.set(title, groupElement(title));
  const { box, holder } = groups.get(title);
  const all = find("#groups");
  if (all.children[rank] !== box) all.insertBefore(box, all.children[rank] ?? null);
  if (box.open === false) return;
  const order = title === "Returns" ? RETURNS.filter((metric) => metrics.includes(metric)) : totalFirst(metrics);
  order.forEach((metric, place) => {
    if (!charts.has(metric)) charts.set(metric, new Chart(metric, titleOf(metric), title === "Returns" ? 240 : 170));
    const chart = charts.get(metric);
    if (holder.children[place] !== chart.figure) holder.insertBefore(chart.figure, holder.children[place] ?? null);
    chart.show(names.map((name) => line(name, metric)), settings);
  });
}

function totalFirst(metrics) {
  return [...metrics].sort((a, b) => b.endsWith("/total") - a.endsWith("/total") || a.localeCompare(b));
}

function line(name, metric) {
  const [steps, values] = curves.series(name, metric);
  const row = rows.find((each) => each.name === name);
  const published = RETURNS.includes(metric) ? row?.published : null;
  return { title: row?.title ?? name, colour: colour(chosen.get(name)), steps, values, published };
}

find("#smoothing").addEventListener("input", (event) => {
  settings = { ...settings, weight: Number(event.target.value) };
  find("#smoothing-value").textContent = event.target.value;
  showCurves();
});
find("#log").addEventListener("change", (event) => {
  settings = { ...settings, log: event.target.checked };
  showCurves();
});
onSchemeChange(() => {
  showRows("");
  showCurves();
});

async function loop() {
  if (!document.hidden) await refresh();
  setTimeout(loop, EVERY);
}
loop();
