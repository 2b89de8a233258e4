// The words for states, times and amounts.

import { h, say } from "./elements.js";

let skew = 0;

// The clock of the service counts: the one of this machine may be wrong.
export function noteTime(date) {
  const theirs = Date.parse(date ?? "");
  if (!Number.isNaN(theirs) && Math.abs(theirs - Date.now()) > 2000) skew = theirs - Date.now();
  else if (!Number.isNaN(theirs)) skew = 0;
}

export function now() {
  return Date.now() + skew;
}

export function span(seconds) {
  const s = Math.max(0, seconds);
  if (s < 1) return s > 0 ? `${Math.max(1, Math.round(s * 1000))} ms` : "0 s";
  if (s < 60) return `${Math.round(s)} s`;
  if (s < 3600) return `${Math.round(s / 60)} min`;
  if (s < 172800) return `${(s / 3600).toFixed(s < 36000 ? 1 : 0)} h`;
  return `${Math.round(s / 86400)} d`;
}

function ago(at) {
  const seconds = (now() - Date.parse(at)) / 1000;
  return seconds < 2 ? "just now" : `${span(seconds)} ago`;
}

// A moment as people say it; the exact one is in its title.
export function moment(at) {
  if (!at) return h("span", {}, "–");
  return h("time", { datetime: at, title: new Date(at).toLocaleString() }, ago(at));
}

export function refreshMoments() {
  for (const one of document.querySelectorAll("time[datetime]")) say(one, ago(one.dateTime));
}

export function count(number, word) {
  return `${number.toLocaleString("en")} ${word}${number === 1 ? "" : "s"}`;
}

export function bytes(number) {
  if (number < 1000) return `${number} B`;
  const units = ["kB", "MB", "GB", "TB", "PB"];
  let value = number;
  let place = -1;
  while (value >= 1000 && place < units.length - 1) {
    value /= 1000;
    place += 1;
  }
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${units[place]}`;
}

// `FullyExecuting` as `fully executing`.
export function plain(state) {
  return String(state).replace(/(?<=[a-z])(?=[A-Z])/g, " ").toLowerCase();
}

const KINDS = {
  Success: "succeeded",
  succeeded: "succeeded",
  FullyExecuting: "working",
  PartiallyExecuting: "working",
  FullyDispatched: "waiting",
  running: "working",
  working: "working",
  assigned: "working",
  cancelling: "partial",
  Failure: "failed",
  failed: "failed",
  unresponsive: "failed",
  interrupted: "failed",
  "workers lost": "failed",
  Cancelled: "cancelled",
  cancelled: "cancelled",
  Paused: "partial",
  partial: "partial",
  Closing: "partial",
  PendingDelete: "partial",
};

export function badge() {
  return h("span", { class: "badge" });
}

export function sayState(element, state) {
  say(element, plain(state));
  const kind = KINDS[state] ?? "";
  const wanted = `badge ${kind}`.trim();
  if (element.className !== wanted) element.className = wanted;
}

export const OVER = ["Success", "Failure", "Cancelled"];

const ORDER = ["running", "assigned", "waiting", "succeeded", "failed", "cancelled"];

export function byState(counts) {
  return ORDER.filter((state) => counts[state]).map((state) => [state, counts[state]]);
}

export function progressWords(task) {
  const words = byState(task.counts).map(([state, many]) => `${many.toLocaleString("en")} ${state}`);
  return words.join(", ") || count(task.instances, "instance");
}
