// The curves of the chosen runs, read piece by piece while the runs write them.

export class Curves {
  constructor() {
    this.runs = new Map(); // name → {place, series: Map(metric → [steps, values]), problem}
  }

  forget(name) {
    this.runs.delete(name);
  }

  // Returns whether anything is new.
  async update(name) {
    let changed = false;
    for (;;) {
      const known = this.runs.get(name);
      const query = new URLSearchParams({ run: name, after: known ? known.place : "" });
      const response = await fetch(`/api/curves?${query}`);
      const answer = await response.json();
      if (!response.ok) {
        changed = known?.problem !== answer.problem;
        this.runs.set(name, { place: "", series: known?.series ?? new Map(), problem: answer.problem });
        return changed;
      }
      changed = this.#add(name, answer) || changed;
      if (!answer.more) return changed;
    }
  }

  #add(name, answer) {
    const known = this.runs.get(name);
    const series = answer.reset ? new Map() : known.series;
    for (const [metric, [steps, values]] of Object.entries(answer.series)) {
      const [allSteps, allValues] = series.get(metric) ?? [[], []];
      series.set(metric, [allSteps.concat(steps), allValues.concat(values)]);
    }
    this.runs.set(name, { series, place: answer.place, problem: answer.problem });
    return known?.place !== answer.place || known.problem !== answer.problem;
  }

  metrics(names) {
    const found = new Set();
    for (const name of names) for (const metric of this.runs.get(name)?.series.keys() ?? []) found.add(metric);
    return [...found].sort();
  }

  series(name, metric) {
    return this.runs.get(name)?.series.get(metric) ?? [[], []];
  }
}

// Exponential moving average, corrected for its start as in Adam.
export function smooth(values, weight) {
  if (!weight) return values;
  let average = 0, scale = 1;
  return values.map((value) => {
    average = weight * average + (1 - weight) * value;
    scale *= weight;
    return average / (1 - scale);
  });
}
