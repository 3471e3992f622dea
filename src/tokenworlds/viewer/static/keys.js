// Keys of actions: arrows and space by the game's names, combined while held, else letters and digits.

const BY_NAME = {
  LEFT: "ArrowLeft", RIGHT: "ArrowRight", UP: "ArrowUp", DOWN: "ArrowDown", FORWARD: "ArrowUp", FIRE: " ",
  NOOP: "s", STAY: "s",
};
const SPARE = [..."1234567890qwertyuioasdfhjklzxcvbm"];
const LABELS = { ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", " ": "space" };
const PARTS = [["UP", "ArrowUp"], ["DOWN", "ArrowDown"], ["RIGHT", "ArrowRight"], ["LEFT", "ArrowLeft"], ["FIRE", " "]];

export class Keys {
  constructor(names) {
    this.names = names;
    this.held = new Set();
    this.keys = new Map(); // key → action
    names.forEach((name, action) => {
      const key = BY_NAME[name];
      if (key && !this.keys.has(key)) this.keys.set(key, action);
    });
    const named = new Set(this.keys.values());
    const spare = SPARE.filter((key) => !this.keys.has(key));
    names.forEach((_, action) => {
      if (!named.has(action) && spare.length) this.keys.set(spare.shift(), action);
    });
    this.idle = Math.max(0, names.findIndex((name) => ["NOOP", "STAY"].includes(name)));
  }

  label(action) {
    for (const [key, found] of this.keys) if (found === action) return LABELS[key] ?? key.toUpperCase();
    return "";
  }

  // The action of the keys that are held; null if none has one.
  action(newest = null) {
    const name = PARTS.filter(([, key]) => this.held.has(key)).map(([part]) => part).join("");
    const together = this.names.indexOf(name);
    if (name && together >= 0) return together;
    for (const key of [newest, ...this.held]) if (this.keys.has(key)) return this.keys.get(key);
    return null;
  }
}

export const normal = (key) => (key.length === 1 ? key.toLowerCase() : key);
