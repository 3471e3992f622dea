// Numbers as heat maps: of tokens, or over a frame.

import { number } from "./format.js";
import { prepare, write } from "./token_grid.js";

// From dark violet over red to pale yellow: lightness grows with the value, also for the colour-blind.
const RAMP = [[24, 15, 62], [114, 31, 129], [205, 64, 113], [253, 159, 108], [252, 253, 191]];

function shade(share) {
  const place = Math.max(0, Math.min(share, 1)) * (RAMP.length - 1);
  const low = Math.min(Math.floor(place), RAMP.length - 2), part = place - low;
  return RAMP[low].map((value, index) => Math.round(value + part * (RAMP[low + 1][index] - value)));
}

export function drawHeat(canvas, values, { grid, most, label }) {
  canvas.hidden = !values;
  if (!values) return;
  const { context, columns, cell } = prepare(canvas, values.length, grid);
  values.forEach((value, index) => {
    const share = most > 0 ? value / most : 0;
    const [x, y] = [(index % columns) * cell, Math.floor(index / columns) * cell];
    context.fillStyle = `rgb(${shade(share).join(" ")})`;
    context.fillRect(x, y, cell, cell);
    if (cell >= 26 && value >= 0.05) write(context, value.toFixed(value < 9.95 ? 1 : 0), x, y, cell, share > 0.6 ? "#000" : "#fff");
  });
  canvas.setAttribute("aria-label", `${label}: highest ${number(Math.max(...values))}, at cell ${values.indexOf(Math.max(...values)) + 1} of ${values.length}`);
}

// Over a frame: the higher the value, the less of a veil; without one the frame is plain.
export function drawVeil(canvas, values, { grid, most, label }) {
  canvas.hidden = !values;
  if (!values) return;
  const [rows, columns] = grid, highest = Math.max(...values);
  canvas.width = columns;
  canvas.height = rows;
  const context = canvas.getContext("2d"), picture = context.createImageData(columns, rows);
  values.forEach((value, index) => {
    const share = most > 0 ? value / most : 0;
    picture.data.set([255, 170, 40, Math.round(190 * share)], 4 * index);
  });
  context.putImageData(picture, 0, 0);
  const place = values.indexOf(highest);
  canvas.setAttribute("aria-label", `${label}: most at row ${Math.floor(place / columns) + 1} of ${rows}, column ${(place % columns) + 1} of ${columns}`);
}
