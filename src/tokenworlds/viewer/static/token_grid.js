// Tokens as coloured cells. A token keeps its colour in every frame, page and run.

const SIZE = 264; // pixels across, before the page scales the canvas
const LABELLED = 20; // pixels of a cell that has room for its number

// The golden angle keeps the hues of neighbouring tokens apart.
export const hue = (token) => (token * 137.508) % 360;
const lightness = (token) => 38 + (token % 4) * 8;
export const colour = (token) => `hsl(${hue(token)} 62% ${lightness(token)}%)`;
// Yellow and green are brighter than blue of the same lightness.
const ink = (token) => (lightness(token) + (hue(token) > 40 && hue(token) < 195 ? 14 : 0) > 58 ? "#000" : "#fff");

// On their grid, else in a rectangle without gaps that is nearly square, if there is one.
export function columnsOf(count, grid) {
  if (grid) return grid[1];
  const least = Math.ceil(Math.sqrt(count));
  for (let columns = least; columns <= 2 * least; columns += 1) if (count % columns === 0) return columns;
  return least;
}

// marked: the cells to outline; shades: tokens are levels of grey; plain: no numbers in the cells.
export function drawTokens(canvas, tokens, { grid = null, marked = new Set(), shades = false, plain = false, label = "" } = {}) {
  canvas.hidden = !tokens;
  if (!tokens) return;
  const { context, columns, cell } = prepare(canvas, tokens.length, grid);
  tokens.forEach((token, index) => {
    const [x, y] = [(index % columns) * cell, Math.floor(index / columns) * cell];
    context.fillStyle = shades ? `rgb(${token} ${token} ${token})` : colour(token);
    context.fillRect(x, y, cell, cell);
    if (cell >= LABELLED && !shades && !plain) write(context, String(token), x, y, cell, ink(token));
    if (marked.has(index)) outline(context, x, y, cell);
  });
  canvas.setAttribute("aria-label", label || `${tokens.length} tokens of the frame`);
}

export function prepare(canvas, count, grid) {
  const columns = columnsOf(count, grid), rows = Math.ceil(count / columns);
  const cell = Math.max(2, Math.floor(SIZE / columns));
  canvas.width = columns * cell;
  canvas.height = rows * cell;
  return { context: canvas.getContext("2d"), columns, rows, cell };
}

export function write(context, text, x, y, cell, fill) {
  context.fillStyle = fill;
  context.font = `${Math.min(13, Math.floor(cell * 0.42))}px system-ui`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillText(text, x + cell / 2, y + cell / 2);
}

export function outline(context, x, y, cell) {
  const width = Math.max(1, Math.round(cell / 10));
  context.lineWidth = width * 2;
  context.strokeStyle = "#000";
  context.strokeRect(x + width, y + width, cell - 2 * width, cell - 2 * width);
  context.lineWidth = width;
  context.strokeStyle = "#fff";
  context.strokeRect(x + width, y + width, cell - 2 * width, cell - 2 * width);
}

// The places at which lists of tokens are not all equal.
export function differing(...lists) {
  const found = new Set();
  if (lists.some((list) => !list)) return found;
  lists[0].forEach((token, index) => lists.some((list) => list[index] !== token) && found.add(index));
  return found;
}
