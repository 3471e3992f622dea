// Errors against the number of imagined steps, with intervals.

import uPlot from "/static/vendor/uplot/uPlot.esm.js";
import { colour, style } from "./chart.js";
import { make } from "./dom.js";
import { number } from "./format.js";

const TITLES = { dream: "dream", still: "a still picture: the frame at the start", floor: "reconstruction: what the tokens can show" };

export class HorizonChart {
  constructor(figure) {
    this.figure = figure;
    this.plot = figure.querySelector(".plot");
    this.curves = null;
    new ResizeObserver(() => this.curves && this.show(this.curves)).observe(this.plot);
  }

  show(curves) {
    this.curves = curves;
    const names = Object.keys(TITLES).filter((name) => curves[name]);
    const steps = curves.dream.mean.map((_, index) => index + 1);
    const data = [steps, ...names.flatMap((name) => [curves[name].mean, curves[name].high, curves[name].low])];
    const series = names.flatMap((_, index) => [
      { stroke: colour(index), width: 2, points: { show: false } },
      { stroke: "transparent", points: { show: false } }, { stroke: "transparent", points: { show: false } },
    ]);
    const bands = names.map((_, index) => ({ series: [3 * index + 2, 3 * index + 3], fill: `${colour(index)}30` }));
    const axis = { stroke: style("--soft"), grid: { stroke: style("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    this.chart?.destroy();
    this.chart = new uPlot({
      width: Math.max(this.plot.clientWidth, 120), height: 230, padding: [8, 8, 0, 0], legend: { show: false }, cursor: { show: false },
      scales: { x: { time: false }, y: { range: (_, low, high) => [0, (high || 1) * 1.05] } },
      axes: [{ ...axis, size: 28, incrs: [1, 2, 4, 8] }, { ...axis, size: 52, values: (_, ticks) => ticks.map(number) }], series: [{}, ...series], bands,
    }, data, this.plot);
    const last = (name) => curves[name].mean.findLast((value) => value !== null);
    const text = (name) => `${TITLES[name]}: ${number(curves[name].mean[0])} after 1 step, ${number(last(name))} at the end`;
    this.plot.setAttribute("aria-label", `Error by imagined steps. ${names.map(text).join("; ")}`);
    this.figure.querySelector(".legend").replaceChildren(...names.map((name, index) => make("li", {}, make("i", { style: `background:${colour(index)}` }), TITLES[name])));
  }
}
