// The page itself: which view is open, when it is drawn anew, who is signed in, and whether the service answers.

import { tell } from "./dialogs.js";
import { h, heading, say } from "./elements.js";
import { News } from "./news.js";
import { openPool, openPools } from "./pools.js";
import { openQueue } from "./queue.js";
import { openRun, openRuns } from "./runs.js";
import { ask, Away, get, post, Refusal } from "./service.js";
import { openTask } from "./task.js";
import { openTasks } from "./tasks.js";
import { count, refreshMoments } from "./words.js";

const SOONEST = 400; // milliseconds between two looks
const POLITE = 10; // times as long as the last one took
const LATEST = 15000;
const TRY_EVERY = 2000;

const ROUTES = [
  [/^\/?$/, openPools],
  [/^\/pools\/([^/]+)$/, openPool],
  [/^\/queue$/, openQueue],
  [/^\/tasks$/, openTasks],
  [/^\/tasks\/([^/]+)(?:\/(\d+))?$/, openTask],
  [/^\/runs$/, openRuns],
  [/^\/runs\/([^/]+)$/, openRun],
];

const main = document.getElementById("main");
const connection = document.getElementById("connection");
const whose = document.getElementById("whose");
const leave = document.getElementById("leave");
let view = null;
let opened = 0; // counts views: what an earlier one still finds is not shown
let running = false;
let dirty = false;
let urgent = false;
let timer = null;
let waitUntil = 0;
let away = null;
let signedOut = false;
const news = new News(() => refreshSoon(), (state) => say(connection, WORDS[state] ?? state));
const WORDS = { live: "live", looking: "looks every 2 s" };

// Draws the view anew, at once where somebody asked for it, else not so often that the service feels it.
function refreshSoon(now = false) {
  if (running) {
    dirty = true;
    urgent ||= now;
  } else if (view && !away && !signedOut && !document.hidden) {
    clearTimeout(timer);
    timer = setTimeout(refresh, now ? 0 : Math.max(0, waitUntil - performance.now()));
  }
}

async function refresh() {
  if (running || !view) return;
  const mine = opened;
  const begun = performance.now();
  let asked = 0;
  [running, dirty, urgent] = [true, false, false];
  try {
    await view.refresh(() => refreshSoon(true));
    if (mine === opened) succeed();
  } catch (problem) {
    asked = 1000 * (problem.wait ?? 0);
    if (mine === opened) complain(problem);
  } finally {
    running = false;
    const took = performance.now() - begun;
    waitUntil = performance.now() + Math.max(asked, Math.min(LATEST, Math.max(SOONEST, POLITE * took)));
    if (dirty) refreshSoon(urgent);
  }
}

function succeed() {
  main.removeAttribute("aria-busy");
  main.querySelector(".problem")?.remove();
  refreshMoments();
}

function complain(problem) {
  main.removeAttribute("aria-busy");
  if (problem instanceof Away) lose();
  else if (problem instanceof Refusal && problem.status === 401) signIn(problem.words);
  else if (problem instanceof Refusal && problem.status === 404) miss(problem.words);
  else if (problem instanceof Refusal) refuse(problem.words);
  else {
    console.error(problem);
    refuse(`this page has a mistake: ${problem.message}`);
  }
}

// What the service says above the view.
function refuse(words) {
  const found = main.querySelector(".problem");
  if (found) say(found, words);
  else main.prepend(h("p", { class: "problem refused", role: "alert" }, words));
}

// What the service says in place of the view: a task that is not there, for example.
function miss(words) {
  view = null;
  main.replaceChildren(heading("Not found"), h("p", { role: "alert" }, words), h("p", {}, h("a", { href: "#/" }, "All pools")));
  main.querySelector("h1").focus();
}

function lose() {
  if (away) return;
  away = Date.now();
  news.stop();
  tell("The service does not answer");
  document.body.classList.add("away");
  const attempt = async () => {
    say(connection, `The service has not answered for ${count(Math.round((Date.now() - away) / 1000), "second")}; this page tries again`);
    try {
      await greet();
    } catch (problem) {
      if (!(problem instanceof Refusal && problem.status === 401)) {
        setTimeout(attempt, TRY_EVERY);
        return;
      }
    }
    away = null;
    document.body.classList.remove("away");
    tell("The service answers again");
    news.start();
    refreshSoon();
  };
  setTimeout(attempt, 500);
}

async function greet() {
  const [service, caller] = await Promise.all([get("/v1/service"), get("/v1/caller")]);
  say(whose, caller.user === service.user ? `of ${service.user}` : `of ${service.user}, for ${caller.user}`);
  leave.hidden = location.protocol !== "https:"; // at the socket nobody signs in
  const process = service.pid ? `process ${service.pid}, ` : "";
  whose.title = `version ${service.version}, ${process}started ${new Date(service.started).toLocaleString()}`;
}

function open() {
  const where = location.hash.replace(/^#/, "");
  if (signedOut || where.startsWith("key=") || where === "main") return;
  opened += 1;
  const found = ROUTES.map(([pattern, make]) => [pattern.exec(where), make]).find(([match]) => match);
  main.replaceChildren();
  if (found) {
    const [match, make] = found;
    view = make(main, ...match.slice(1).map((part) => part && decoded(part)));
    main.setAttribute("aria-busy", "true");
  } else {
    miss("This page has no such view.");
  }
  news.follow(view?.task ?? null);
  document.title = `${view?.title ?? "Not found"} · Cenote`;
  for (const link of document.querySelectorAll("nav a")) {
    const own = link.hash.slice(1);
    const here = own === "/" ? /^\/?$|^\/pools/.test(where) : where.startsWith(own);
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  main.querySelector("h1").focus({ preventScroll: true });
  scrollTo(0, 0);
  refreshSoon(true);
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // a % that stands for itself
  }
}

// --- Who is there ---------------------------------------------------------------------------------------------------

function signIn(words) {
  if (signedOut) return;
  signedOut = true;
  news.stop();
  say(connection, "not signed in");
  leave.hidden = true;
  const refused = h("p", { class: "refused", role: "alert" }, words);
  const field = h("input", { type: "password", autocomplete: "current-password", required: true, id: "token" });
  const submit = async (event) => {
    event.preventDefault();
    try {
      await enter({ token: field.value });
    } catch (problem) {
      say(refused, problem.words ?? problem.message);
      field.select();
    }
  };
  main.replaceChildren(
    heading("Sign in"),
    h(
      "section",
      { "aria-label": "Sign in" },
      h("p", {}, h("code", {}, "cenote page"), " prints a link that signs you in. Or give a token of yours."),
      h("form", { onsubmit: submit }, h("label", {}, "Token ", field), h("button", { class: "first" }, "Sign in")),
      refused,
    ),
  );
  document.title = "Sign in · Cenote";
  field.focus();
}

leave.addEventListener("click", async () => {
  try {
    await ask("/v1/session", { method: "DELETE" });
    signIn("You are signed out.");
  } catch (problem) {
    complain(problem);
  }
});

async function enter(given) {
  await post("/v1/session", given);
  signedOut = false;
  await begin();
}

async function begin() {
  try {
    await greet();
  } catch (problem) {
    if (problem instanceof Refusal && problem.status === 401) {
      signIn(problem.words);
      return;
    }
    open();
    complain(problem);
    return;
  }
  news.start();
  open();
}

async function start() {
  const key = /^#key=(.+)$/.exec(location.hash)?.[1];
  if (key === undefined) return begin();
  history.replaceState(null, "", "#/"); // the key is of no use to whoever looks at the address later
  try {
    await enter({ key: decoded(key) });
  } catch (problem) {
    signIn(problem.words ?? problem.message);
  }
}

addEventListener("hashchange", open);
// A browser has few connections to one host: a window that nobody sees holds none.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) news.stop();
  else if (!away && !signedOut) news.start();
});
addEventListener("pagehide", () => news.stop());
addEventListener("pageshow", (event) => {
  if (event.persisted && !away && !signedOut) news.start();
});
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.querySelector("h1")?.focus();
});
setInterval(refreshMoments, 10000);
start();
