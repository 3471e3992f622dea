// The websocket to the process of an agent: requests go out, and each answer goes to the function for its kind.

import { find } from "./dom.js";

export const run = new URLSearchParams(location.search).get("run") ?? ".";

export class Agent {
  // handlers: kind of answer → function; `closed` is called when no more answers come.
  constructor(handlers) {
    this.handlers = handlers;
    this.busy = false;
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    this.socket = new WebSocket(`${scheme}://${location.host}/api/play?${new URLSearchParams({ run })}`);
    this.socket.addEventListener("message", (event) => this.#receive(JSON.parse(event.data)));
    this.socket.addEventListener("close", () => {
      for (const control of document.querySelectorAll("main button, main select, main input")) control.disabled = true;
      if (find("#problem").hidden) complain("The viewer closed the connection: load the page again.");
      handlers.closed?.();
    });
  }

  get open() {
    return this.socket.readyState === WebSocket.OPEN;
  }

  send(request) {
    this.busy = true;
    this.socket.send(JSON.stringify(request));
  }

  #receive(answer) {
    this.busy = false;
    if (answer.kind === "problem" || answer.kind === "failed") complain(answer.problem);
    this.handlers[answer.kind]?.(answer);
  }
}

export function complain(text) {
  find("#problem").textContent = text;
  find("#problem").hidden = false;
}

export function calm() {
  find("#problem").hidden = true;
}

export const say = (text) => (find("#status").textContent = text);
