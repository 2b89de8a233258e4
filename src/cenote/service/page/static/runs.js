// Shows the runs that the service drives, and one of them: live, then as it ended, with its report.

import { lanes } from "./chart.js";
import { taskButtons, tell } from "./dialogs.js";
import { h, heading, keyed, pairs, say, section, show, tile } from "./elements.js";
import { get, path } from "./service.js";
import { taskList } from "./task_rows.js";
import { badge, bytes, count, moment, plain, sayState, span } from "./words.js";

export function openRuns(place) {
  const list = taskList("No run was submitted to this service yet.");
  place.append(heading("Runs"), section("The latest first", list));
  return {
    title: "Runs",
    async refresh() {
      list.fill(await get("/v1/runs"));
    },
  };
}

const tasksOf = (counts) =>
  ["running", "waiting", "failed", "reused", "not_run"]
    .filter((name) => counts[name])
    .map((name) => `${counts[name].toLocaleString("en")} ${name.replace("_", " ")}`)
    .join(", ");

export function openRun(place, id) {
  let before = null;
  const title = h("span", {}, id.slice(0, 8));
  const state = badge();
  const silence = h("p", { class: "refused", role: "alert", hidden: true });
  const report = h("a", { class: "button first", target: "_blank", rel: "noopener", hidden: true }, "Open the report");
  const actions = taskButtons(() => {});
  const why = h("ul", { class: "why" });
  const tiles = {
    done: tile("tasks done"),
    time: tile("duration"),
    left: tile("time left"),
    events: tile("events read"),
    memory: tile("peak memory"),
  };
  const stages = h("ul", { class: "cards" });
  const pools = h("ul", { class: "cards" });
  const timeline = h("div");
  const failures = h("ul", { class: "failures" });
  const warnings = h("ul", { class: "why" });
  const products = h("ul", { class: "files" });
  const facts = pairs(["folder", "owner", "submitted", "driver"]);
  const parts = {
    stages: section("Stages", stages),
    timeline: section("Tasks running at once", timeline),
    pools: section("Pools", pools),
    failures: section("Failures", failures),
    warnings: section("Warnings", warnings),
    products: section("Products", products),
  };
  const list = h("ul", { class: "tiles" }, ...Object.values(tiles));
  place.append(heading(title, " ", state), silence, why, h("p", {}, report), actions, list);
  place.append(...Object.values(parts), section("About it", facts.list));
  return {
    title: `Run ${id.slice(0, 8)}`,
    async refresh() {
      const run = await get(path("runs", id));
      const { task, summary } = run;
      if (before && before !== run.status) tell(`Run ${task.run.split("/").pop()}: ${plain(run.status)}`);
      before = run.status;
      say(title, task.name || task.id);
      document.title = `${task.name || task.id}: ${run.status} · Cenote`;
      sayState(state, run.status);
      say(silence, run.silence ?? "");
      show(silence, Boolean(run.silence));
      report.href = `${path("runs", id)}/report`;
      show(report, run.report);
      actions.update(task);
      keyed(why, task.why, (reason) => reason, (reason) => h("li", {}, reason), () => {});
      show(why, task.why.length > 0);
      facts.values.folder(h("code", {}, task.run));
      facts.values.owner(task.user);
      facts.values.submitted(moment(task.submitted));
      facts.values.driver(h("a", { href: `#/tasks/${task.id}` }, `task ${task.id.slice(0, 8)}, its output and its worker`));
      show(list, summary !== null);
      for (const part of Object.values(parts)) show(part, false);
      if (summary !== null) fill(run, summary);
    },
  };

  function fill(run, summary) {
    tiles.done.fill(`${summary.tasks.done.toLocaleString("en")} of ${summary.tasks.total.toLocaleString("en")}`, tasksOf(summary.tasks));
    tiles.time.fill(span(summary.seconds), summary.cpu_seconds ? `${span(summary.cpu_seconds)} of CPU` : "");
    tiles.left.fill(summary.time_left === null ? "–" : span(summary.time_left), summary.ended ? "it has ended" : "at this pace");
    tiles.events.fill(summary.events.toLocaleString("en"), summary.bytes_read ? bytes(summary.bytes_read) : "");
    tiles.memory.fill(summary.peak_memory ? bytes(summary.peak_memory) : "–", "of one task");
    show(tiles.left, !summary.ended);
    show(parts.stages, summary.stages.length > 0);
    keyed(stages, summary.stages, (one) => one.id, stageCard, (card, one) => card.update(one));
    show(parts.pools, summary.pools.length > 0);
    keyed(pools, summary.pools, (one) => one.name, runPool, (card, one) => card.update(one));
    show(parts.timeline, run.timeline.length > 0);
    if (run.timeline.length) timeline.replaceChildren(lanes(run.timeline, summary.seconds));
    show(parts.failures, summary.failures.length > 0);
    keyed(failures, summary.failures, (one) => `${one.stage} ${one.task}`, failure, () => {});
    show(parts.warnings, summary.warnings.length > 0);
    keyed(warnings, summary.warnings, (words) => words, (words) => h("li", {}, words), () => {});
    const published = summary.products.filter((one) => one.files.length || one.plots.length);
    show(parts.products, published.length > 0);
    keyed(products, published, (one) => one.name, (one) => product(id, one), () => {});
  }
}

function stageCard() {
  const name = h("span", { class: "name" });
  const op = h("code");
  const done = h("span", { class: "part succeeded" });
  const failed = h("span", { class: "part failed" });
  const running = h("span", { class: "part running" });
  const words = h("span", { class: "quiet" });
  const more = h("p", { class: "quiet" });
  const made = h(
    "li",
    { class: "card" },
    h("p", { class: "title" }, name, " ", op),
    h("div", { class: "progress" }, h("span", { class: "bar", "aria-hidden": "true" }, done, failed, running), words),
    more,
  );
  made.update = (stage) => {
    const share = (number) => `${(100 * number) / Math.max(1, stage.tasks)}%`;
    say(name, stage.id);
    say(op, stage.op);
    done.style.width = share(stage.done);
    failed.style.width = share(stage.failed);
    running.style.width = share(stage.running);
    const rest = tasksOf(stage);
    say(words, `${stage.done.toLocaleString("en")} of ${count(stage.tasks, "task")} done${rest ? `, ${rest}` : ""}`);
    const ran = Object.entries(stage.pools).map(([pool, tasks]) => `${pool} (${tasks})`);
    const facts = [
      ran.length && `ran on ${ran.join(", ")}`,
      stage.events_in && `${stage.events_in.toLocaleString("en")} events in, ${stage.events_out.toLocaleString("en")} out`,
      stage.seconds && `${span(stage.seconds)} of work`,
      stage.rate && `${Math.round(stage.rate).toLocaleString("en")} events per second`,
    ];
    say(more, facts.filter(Boolean).join(" · "));
  };
  return made;
}

function runPool() {
  const name = h("span", { class: "name" });
  const state = badge();
  const words = h("p", { class: "quiet" });
  const made = h("li", { class: "card" }, h("p", { class: "title" }, name, " ", state), words);
  made.update = (pool) => {
    say(name, pool.name);
    sayState(state, pool.state);
    const facts = [
      pool.strategy,
      `${count(pool.workers, "worker")}${pool.awaited ? `, ${pool.awaited} awaited` : ""}`,
      `${count(pool.tasks, "task")} done`,
      pool.running && `${pool.running} running`,
      pool.waiting && `${pool.waiting} waiting`,
      pool.workers_lost && `${count(pool.workers_lost, "worker")} lost`,
      pool.held || pool.last_word,
    ];
    say(words, facts.filter(Boolean).join(" · "));
  };
  return made;
}

function failure(one) {
  const where = [one.stage, one.task !== null && `task ${one.task}`, one.pool && `pool ${one.pool}`, one.worker];
  return h("li", {}, h("p", { class: "quiet" }, where.filter(Boolean).join(" · ")), h("pre", {}, one.message));
}

function product(id, one) {
  const links = [...one.files, ...one.plots].map((file) =>
    h("a", { href: `${path("runs", id)}/${file.split("/").map(encodeURIComponent).join("/")}`, download: file.split("/").at(-1) }, file),
  );
  const spaced = links.flatMap((link, place) => (place ? [" ", link] : [link]));
  return h("li", {}, h("strong", {}, one.name), " ", h("span", { class: "quiet" }, one.description || one.kind), " ", ...spaced);
}
