// The states of a dream as a tree: rewinding moves the cursor, acting from an earlier state branches.

export class Tree {
  constructor(root) {
    this.nodes = new Map([[root.number, { ...root, parent: null }]]);
    this.leaves = [root.number]; // one for each branch
    this.cursor = root.number;
    this.branch = 0;
  }

  get current() {
    return this.nodes.get(this.cursor);
  }

  // Returns whether the state began a branch.
  add(state) {
    this.nodes.set(state.number, state);
    const place = this.leaves.indexOf(state.parent);
    if (place >= 0) this.leaves[place] = state.number;
    else this.leaves.push(state.number);
    this.branch = place >= 0 ? place : this.leaves.length - 1;
    this.cursor = state.number;
    return place < 0;
  }

  // The states of the shown branch, the first one first.
  path() {
    const found = [];
    for (let number = this.leaves[this.branch]; number !== null; number = this.nodes.get(number).parent) found.unshift(this.nodes.get(number));
    return found;
  }

  chooseBranch(index) {
    this.branch = index;
    this.cursor = this.leaves[index];
  }

  go(step) {
    const path = this.path();
    this.cursor = path[Math.max(0, Math.min(step, path.length - 1))].number;
  }

  rewards() {
    let sum = 0;
    for (let node = this.current; node && node.parent !== null; node = this.nodes.get(node.parent)) sum += node.reward;
    return sum;
  }
}
