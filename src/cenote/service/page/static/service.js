// Asks the service. What it refuses is a Refusal with its own words; a service that does not answer is Away.

import { noteTime } from "./words.js";

export class Refusal extends Error {
  constructor(status, record, wait = 0) {
    super(record.message);
    this.status = status;
    this.wait = wait; // seconds until it may be asked again
    this.hint = record.hint ?? "";
  }

  get words() {
    return this.hint ? `${this.message} (${this.hint})` : this.message;
  }
}

export class Away extends Error {
  get words() {
    return "the service does not answer";
  }
}

export function path(...parts) {
  return `/v1/${parts.map((part) => encodeURIComponent(part)).join("/")}`;
}

async function refusalOf(answer) {
  const wait = Number(answer.headers.get("Retry-After")) || 0;
  try {
    return new Refusal(answer.status, await answer.json(), wait);
  } catch {
    return new Refusal(answer.status, { message: `the service answered with ${answer.status}` });
  }
}

export async function ask(where, options = {}) {
  let answer;
  try {
    answer = await fetch(where, { cache: "no-store", credentials: "same-origin", ...options });
  } catch (problem) {
    if (problem.name === "AbortError") throw problem;
    throw new Away();
  }
  noteTime(answer.headers.get("Date"));
  if (!answer.ok) throw await refusalOf(answer);
  return answer;
}

export async function get(where) {
  const answer = await ask(where);
  try {
    return await answer.json();
  } catch {
    throw new Away();
  }
}

// What only the owner of a task may see is null for others.
export async function unlessForbidden(promise) {
  try {
    return await promise;
  } catch (problem) {
    if (problem instanceof Refusal && problem.status === 403) return null;
    throw problem;
  }
}

export async function post(where, body = undefined) {
  const given = body === undefined ? {} : { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
  const answer = await ask(where, { method: "POST", ...given });
  const text = await answer.text();
  return text ? JSON.parse(text) : null;
}
