// One chart of a metric with a line for each run. uPlot draws it; the text around it is ours.

import uPlot from "/static/vendor/uplot/uPlot.esm.js";
import { smooth } from "./curves.js";
import { make } from "./dom.js";
import { count, number } from "./format.js";

const LIGHT = ["#1f5fbf", "#c4500a", "#0b7d57", "#a8398b", "#6b50b8", "#8a6d00", "#0f7c99", "#8c4a3c"];
const DARK = ["#82b1ff", "#ff9e5e", "#5fd3a4", "#f08fd4", "#b9a3ff", "#e5c453", "#63d0ee", "#e0a08f"];
const dark = matchMedia("(prefers-color-scheme: dark)");

export const colour = (index) => (dark.matches ? DARK : LIGHT)[index % LIGHT.length];
export const onSchemeChange = (listener) => dark.addEventListener("change", listener);

export const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export class Chart {
  // pick(step) is called with the step that is clicked.
  constructor(metric, title, height, pick = null) {
    this.metric = metric;
    this.height = height;
    this.pick = pick;
    this.mark = null; // a step with a vertical line
    this.note = make("span", { class: "note" });
    this.readout = make("p", { class: "readout", "aria-hidden": "true" });
    this.plot = make("div", { class: "plot", role: "img" });
    this.figure = make("figure", { "data-metric": metric }, make("figcaption", {}, title, this.note), this.readout, this.plot);
    this.key = "";
    this.observer = new ResizeObserver(() => this.#resize());
    this.observer.observe(this.plot);
  }

  // lines: [{title, colour, steps, values, published}]
  show(lines, { weight, log }) {
    this.lines = lines.filter((line) => line.steps.length);
    const positive = this.lines.some((line) => line.values.some((value) => value > 0));
    this.log = log && positive && !this.lines.some((line) => line.values.some((value) => value <= 0));
    this.note.textContent = log && !this.log ? "linear: it has values ≤ 0" : "";
    this.published = [...new Map(this.lines.filter((line) => line.published).map((line) => [line.published.agent, line.published])).values()];
    const raw = weight > 0;
    const tables = this.lines.flatMap((line) => [
      [line.steps, smooth(line.values, weight)],
      ...(raw ? [[line.steps, line.values]] : []),
    ]);
    const data = tables.length ? uPlot.join(tables) : [[]];
    const key = JSON.stringify([this.lines.map((line) => line.colour), this.log, raw, this.published, dark.matches]);
    if (key !== this.key || !this.chart) {
      this.key = key;
      this.chart?.destroy();
      this.chart = new uPlot(this.#options(raw), data, this.plot);
      if (this.pick) this.chart.over.addEventListener("click", () => this.chart.cursor.idx !== null && this.pick(this.chart.data[0][this.chart.cursor.idx]));
    } else {
      this.chart.setData(data);
    }
    this.#read(null);
    this.plot.setAttribute("aria-label", this.#summary());
  }

  setMark(step) {
    this.mark = step;
    this.chart?.redraw(false);
  }

  destroy() {
    this.observer.disconnect();
    this.chart?.destroy();
    this.figure.remove();
  }

  #options(raw) {
    const axis = { stroke: style("--soft"), grid: { stroke: style("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    const series = this.lines.flatMap((line) => [
      { stroke: line.colour, width: 2, spanGaps: true, points: { show: line.steps.length < 3 } },
      ...(raw ? [{ stroke: `${line.colour}44`, width: 1, spanGaps: true, points: { show: false } }] : []),
    ]);
    return {
      width: Math.max(this.plot.clientWidth, 120),
      height: this.height,
      padding: [8, 8, 0, 0],
      cursor: { y: false, drag: { x: !this.pick, y: false }, points: { size: 7 } },
      legend: { show: false },
      scales: { x: { time: false }, y: { distr: this.log ? 3 : 1, range: this.log ? undefined : (_, low, high) => this.#range(low, high) } },
      axes: [
        { ...axis, values: (_, ticks) => ticks.map(short), size: 28 },
        { ...axis, values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : number(tick))), size: 56 },
      ],
      series: [{}, ...series],
      hooks: { draw: [(chart) => this.#drawPublished(chart), (chart) => this.#drawMark(chart)], setCursor: [(chart) => this.#read(chart.cursor.idx)] },
    };
  }

  #range(low, high) {
    const values = [low, high, ...this.published.map((score) => score.value)].filter((value) => value !== null && Number.isFinite(value));
    if (!values.length) return [0, 1];
    const [least, most] = [Math.min(...values), Math.max(...values)];
    // A range of a few rounding errors has no ticks that differ.
    const size = Math.max(Math.abs(least), Math.abs(most));
    const margin = most - least > size * 1e-6 ? (most - least) * 0.06 : size * 0.1 || 1;
    return [least - margin, most + margin];
  }

  #drawPublished(chart) {
    const { ctx, bbox } = chart;
    for (const score of this.published) {
      const y = Math.round(chart.valToPos(score.value, "y", true)) + 0.5;
      if (y < bbox.top || y > bbox.top + bbox.height) continue;
      const ratio = devicePixelRatio;
      ctx.save();
      ctx.strokeStyle = ctx.fillStyle = style("--soft");
      ctx.setLineDash([6 * ratio, 4 * ratio]);
      ctx.lineWidth = ratio;
      ctx.beginPath();
      ctx.moveTo(bbox.left, y);
      ctx.lineTo(bbox.left + bbox.width, y);
      ctx.stroke();
      ctx.font = `${11 * ratio}px system-ui`;
      ctx.textAlign = "right";
      ctx.textBaseline = y - bbox.top < 18 * ratio ? "top" : "bottom";
      ctx.fillText(`published ${score.agent} ${number(score.value)}`, bbox.left + bbox.width - 4 * ratio, y);
      ctx.restore();
    }
  }

  #drawMark(chart) {
    if (this.mark === null) return;
    const { ctx, bbox } = chart, x = Math.round(chart.valToPos(this.mark, "x", true));
    if (x < bbox.left || x > bbox.left + bbox.width) return;
    ctx.fillStyle = style("--accent");
    ctx.fillRect(x - devicePixelRatio, bbox.top, 2 * devicePixelRatio, bbox.height);
  }

  #read(index) {
    if (!this.chart) return;
    const step = index === null || index === undefined ? null : this.chart.data[0][index];
    const parts = this.lines.map((line) => {
      const at = step === null ? line.steps.length - 1 : lastUpTo(line.steps, step);
      const swatch = make("i", { style: `background:${line.colour}` });
      return make("span", {}, swatch, at < 0 ? "–" : number(line.values[at]));
    });
    const where = step === null ? "latest" : `step ${count(step)}`;
    this.readout.replaceChildren(make("span", {}, where), ...parts);
  }

  #summary() {
    const parts = this.lines.map((line) => {
      const last = line.steps.length - 1;
      return `${line.title}: ${number(line.values[last])} at step ${count(line.steps[last])}`;
    });
    const published = this.published.map((score) => `published ${score.agent}: ${number(score.value)}`);
    return `${this.metric}. ${[...parts, ...published].join("; ") || "no values yet"}`;
  }

  #resize() {
    const width = this.plot.clientWidth;
    if (this.chart && width && width !== this.chart.width) this.chart.setSize({ width, height: this.height });
  }
}

function lastUpTo(steps, step) {
  let low = 0, high = steps.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (steps[middle] <= step) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

function short(value) {
  if (value === null) return "";
  if (value >= 1e6) return `${Number((value / 1e6).toPrecision(3))}M`;
  return value >= 1e3 ? `${Number((value / 1e3).toPrecision(3))}k` : String(value);
}
