// Shows all pools, or one with its charts and its queue.

import { chart, round, SLOTS, WAITING } from "./chart.js";
import { h, heading, keyed, pairs, say, section, show, tile } from "./elements.js";
import { get, path } from "./service.js";
import { taskList } from "./task_rows.js";
import { badge, count, plain, sayState } from "./words.js";

const RECENT = 900;
const DRAW_EVERY = 4000; // milliseconds, of the chart of one pool among others
const MOST_CHARTS = 30; // of more pools, those on the screen first

const slotsOf = (pool) => pool.workers * pool.slots;

function historyOf(pool, seconds, points) {
  return get(`${path("pools", pool, "history")}?seconds=${seconds}&points=${points}`);
}

function workers(pool) {
  const fixed = pool.wanted === null ? "" : ` of ${pool.wanted}`;
  const size = pool.elastic ? `, between ${pool.elastic.min} and ${pool.elastic.max}` : fixed;
  return `${pool.workers}${size}${pool.awaited ? `, ${pool.awaited} awaited` : ""}`;
}

export function openPools(place) {
  const tiles = { slots: tile("slots in use"), waiting: tile("instances that wait"), pools: tile("pools") };
  const list = h("ul", { class: "cards pools" });
  const nothing = h("p", { class: "quiet" }, "There is no pool. ", h("code", {}, "cenote.connect().create_pool(…)"), " makes one.");
  const latest = taskList("No task was submitted yet.");
  place.append(
    heading("Pools"),
    h("ul", { class: "tiles" }, ...Object.values(tiles)),
    section("All pools", nothing, list),
    section("Latest tasks", latest),
  );
  return {
    title: "Pools",
    async refresh() {
      const [pools, tasks] = await Promise.all([get("/v1/pools"), get("/v1/tasks?most=8")]);
      const sum = (value) => pools.reduce((all, pool) => all + value(pool), 0);
      tiles.slots.fill(`${sum((pool) => pool.busy)} of ${sum(slotsOf)}`, count(sum((pool) => pool.workers), "worker"));
      tiles.waiting.fill(sum((pool) => pool.waiting).toLocaleString("en"), "for a slot");
      tiles.pools.fill(String(pools.length), awaited(sum((pool) => pool.awaited)));
      show(nothing, pools.length === 0);
      keyed(list, pools, (pool) => pool.name, poolCard, (card, pool) => card.update(pool));
      latest.fill(tasks);
      await Promise.all([...list.children].slice(0, MOST_CHARTS).map((card) => card.draw()));
    },
  };
}

const awaited = (workers) => (workers ? `${count(workers, "worker")} awaited` : "");

function poolCard(first) {
  const name = h("a", { class: "name", href: `#/pools/${encodeURIComponent(first.name)}` });
  const state = badge();
  const reason = h("p", { class: "quiet" });
  const drawn = chart(SLOTS, 48);
  const numbers = pairs(["in use", "waiting", "workers"]);
  const made = h(
    "li",
    { class: "card pool" },
    h("div", {}, h("p", { class: "title" }, name, " ", state), reason),
    drawn,
    numbers.list,
  );
  made.update = (pool) => {
    say(name, pool.title || pool.name);
    sayState(state, pool.state);
    say(reason, [pool.reason, pool.strategy].filter(Boolean).join(" · "));
    numbers.values["in use"](`${pool.busy} of ${count(slotsOf(pool), "slot")}`);
    numbers.values.waiting(count(pool.waiting, "instance"));
    numbers.values.workers(workers(pool));
  };
  let drawnAt = -Infinity;
  made.draw = async () => {
    if (performance.now() - drawnAt < DRAW_EVERY) return;
    drawnAt = performance.now();
    try {
      drawn.fill(await historyOf(first.name, RECENT, 120), RECENT);
    } catch (problem) {
      if (problem.status !== 404) throw problem; // it is gone since the list was read
    }
  };
  return made;
}

const WINDOWS = [
  [RECENT, "15 min"],
  [7200, "2 h"],
  [86400, "24 h"],
];

export function openPool(place, name) {
  let seconds = RECENT;
  let again = () => {};
  const title = h("span", {}, name);
  const state = badge();
  const reason = h("p", { class: "meaning" });
  const slots = chart(SLOTS, 120);
  const waiting = chart(WAITING, 60);
  const facts = pairs(["in use", "waiting", "workers", "slots of a worker", "strategy", "profile", "owner", "known as"]);
  const queue = taskList("Nothing waits for this pool.");
  const running = taskList("Nothing runs here.");
  const windows = WINDOWS.map(([length, words]) => {
    const choose = () => {
      seconds = length;
      for (const other of windows) other.setAttribute("aria-pressed", String(other === button));
      again();
    };
    const button = h("button", { type: "button", "aria-pressed": String(length === seconds), onclick: choose }, words);
    return button;
  });
  place.append(
    heading(title, " ", state),
    reason,
    section(
      "Slots",
      h("div", { class: "buttons", role: "group", "aria-label": "How far back" }, ...windows),
      h("p", { class: "quiet" }, "Slots in use, below the line of all that are there"),
      slots,
      h("p", { class: "quiet" }, "Instances that wait"),
      waiting,
      facts.list,
    ),
    section("Waiting, in the order in which they would start", queue),
    section("Running", running),
  );
  return {
    title: `Pool ${name}`,
    async refresh(renew) {
      again = renew;
      const [pool, waits, tasks, history] = await Promise.all([
        get(path("pools", name)),
        get(`/v1/queue?pool=${encodeURIComponent(name)}`),
        get(`/v1/tasks?pool=${encodeURIComponent(name)}&most=200`),
        historyOf(name, seconds, 300),
      ]);
      say(title, pool.title || pool.name);
      sayState(state, pool.state);
      say(reason, pool.reason);
      slots.fill(history, seconds);
      waiting.fill(history, seconds);
      facts.values["in use"](`${round(pool.busy)} of ${count(slotsOf(pool), "slot")}`);
      facts.values.waiting(count(pool.waiting, "instance"));
      facts.values.workers(workers(pool));
      facts.values["slots of a worker"](String(pool.slots));
      facts.values.strategy(pool.strategy);
      facts.values.profile(pool.profile === pool.strategy ? "" : pool.profile);
      facts.values.owner(pool.user);
      facts.values["known as"](pool.title && pool.title !== pool.name ? pool.name : "");
      queue.fill(waits[name] ?? [], { buttons: true, numbered: true });
      running.fill(tasks.filter((task) => plain(task.state).includes("executing")));
    },
  };
}
