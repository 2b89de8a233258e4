// Shows one task: its facts and buttons, its instances page by page, its output as it comes, and its results.

import { taskButtons, tell } from "./dialogs.js";
import { h, heading, keyed, pairs, say, section, show } from "./elements.js";
import { outputPanel } from "./output.js";
import { get, path, unlessForbidden } from "./service.js";
import { bar } from "./task_rows.js";
import { badge, byState, count, moment, plain, sayState } from "./words.js";

const PAGE = 50;

export function openTask(place, id, chosen) {
  let known = null;
  let again = () => {};
  const title = h("span", {}, id.slice(0, 8));
  const state = badge();
  const why = h("ul", { class: "why" });
  const progress = bar();
  const facts = pairs(["pool", "owner", "group", "priority", "submitted", "ended", "command", "id", "run"]);
  const actions = taskButtons((task) => {
    fill(task);
    again();
  });
  const instances = instanceList(id, (number) => {
    output.choose({ instance: number });
    outputPart.scrollIntoView({ block: "start" });
    output.focusText();
  });
  const output = outputPanel(id);
  const results = h("ul", { class: "files" });
  const resultsPart = section("Results", results);
  const outputPart = section("Output", output);
  const instancesPart = section("Instances", instances);
  const theirs = h("p", { class: "quiet", hidden: true }, "Its instances, its output and its results are for its owner.");
  output.addEventListener("chosen", ({ detail }) => {
    const wanted = detail === null ? `#/tasks/${id}` : `#/tasks/${id}/${detail}`;
    if (place.isConnected && location.hash !== wanted) history.replaceState(null, "", wanted);
    instances.choose(detail);
  });
  place.append(
    heading(title, " ", state),
    why,
    progress,
    actions,
    section("About it", facts.list),
    outputPart,
    resultsPart,
    instancesPart,
    theirs,
  );
  if (chosen !== undefined && /^\d+$/.test(chosen)) output.choose({ instance: Number(chosen) });

  function fill(task) {
    if (known && known.state !== task.state) tell(`Task ${task.name}: ${plain(task.state)}`);
    known = task;
    say(title, task.name || task.id);
    document.title = `${task.name || task.id} · Cenote`;
    sayState(state, task.state);
    keyed(why, task.why, (reason) => reason, (reason) => h("li", {}, reason), () => {});
    show(why, task.why.length > 0);
    progress.fill(task);
    actions.update(task);
    facts.values.pool(h("a", { href: `#/pools/${encodeURIComponent(task.pool)}` }, task.pool));
    facts.values.owner(task.user);
    facts.values.group(task.group);
    facts.values.priority(String(task.priority));
    facts.values.submitted(moment(task.submitted));
    facts.values.ended(task.ended ? moment(task.ended) : "");
    facts.values.command(task.command ? h("code", {}, task.command) : "");
    facts.values.id(h("code", {}, task.id));
    facts.values.run(task.run ? h("a", { href: `#/runs/${task.id}` }, task.run) : "");
  }

  return {
    title: `Task ${id.slice(0, 8)}`,
    task: id,
    async refresh(renew) {
      again = renew;
      const task = await get(path("tasks", id));
      fill(task);
      const files = await unlessForbidden(get(path("tasks", id, "results")));
      const own = files !== null;
      for (const part of [outputPart, instancesPart]) show(part, own);
      show(theirs, !own);
      show(resultsPart, own && files.length > 0);
      if (!own) return;
      const [, attempts] = await Promise.all([instances.refresh(renew, task), attemptsOf(id, instances.chosen)]);
      await output.refresh(renew, attempts);
      keyed(results, files, (name) => name, (name) => resultLink(id, name), () => {});
    },
  };
}

async function attemptsOf(id, number) {
  if (number === null) return null;
  const found = await get(`${path("tasks", id, "instances")}?first=${number}&last=${number + 1}`);
  return found[0]?.attempts ?? null;
}

function resultLink(id, name) {
  const where = `/v1/tasks/${encodeURIComponent(id)}/results/${name.split("/").map(encodeURIComponent).join("/")}`;
  return h("li", {}, h("a", { href: where, download: name.split("/").at(-1) }, name));
}

// A page of instances, of all or of those in one state.
function instanceList(id, pick) {
  let first = 0;
  let wanted = "";
  let again = () => {};
  let chosen = null;
  const filters = h("div", { class: "buttons", role: "group", "aria-label": "Instances that are" });
  const rows = h("tbody");
  const headings = ["Instance", "State", "Exit code", "Attempts", "Worker", "Message"];
  const table = h(
    "table",
    { class: "stacks" },
    h("caption", { class: "hidden" }, "Instances"),
    h("thead", {}, h("tr", {}, ...headings.map((words) => h("th", { scope: "col" }, words)))),
    rows,
  );
  const turn = (words, by) =>
    h("button", { type: "button", onclick: () => ((first = Math.max(0, first + by)), again()) }, words);
  const back = turn("Earlier", -PAGE);
  const on = turn("Later", PAGE);
  const where = h("span", { class: "quiet" });
  const pages = h("div", { class: "buttons" }, back, where, on);
  const made = h("div", {}, filters, table, pages);
  const filter = (state) => {
    [wanted, first] = [state, 0];
    again();
  };
  const mark = () => {
    for (const row of rows.children) row.classList.toggle("chosen", row.dataset.key === String(chosen));
  };
  made.choose = (number) => {
    chosen = number;
    mark();
  };
  Object.defineProperty(made, "chosen", { get: () => chosen });
  made.refresh = async (renew, task) => {
    again = renew;
    const counts = [["", task.instances], ...byState(task.counts)];
    const many = counts.find(([state]) => state === wanted)?.[1] ?? 0;
    if (first >= many) first = Math.max(0, Math.floor((many - 1) / PAGE) * PAGE);
    const choice = ([state]) => h("button", { type: "button", onclick: () => filter(state) });
    keyed(filters, counts, ([state]) => state || "all", choice, (button, [state, number]) => {
      say(button, `${state || "all"} ${number.toLocaleString("en")}`);
      button.setAttribute("aria-pressed", String(state === wanted));
    });
    const state = wanted ? `&state=${wanted}` : "";
    const found = await get(`${path("tasks", id, "instances")}?first=${first}&last=${first + PAGE}${state}`);
    keyed(rows, found, (one) => one.number, (one) => instanceRow(one.number, pick), (row, one) => row.update(one));
    mark();
    show(pages, many > PAGE);
    back.disabled = first === 0;
    on.disabled = first + PAGE >= many;
    say(where, `${first + 1} to ${Math.min(first + PAGE, many)} of ${count(many, "instance")}`);
  };
  return made;
}

function instanceRow(number, pick) {
  const state = badge();
  const button = h("button", { type: "button", class: "plain", onclick: () => pick(number) }, `${number}`);
  button.setAttribute("aria-label", `Output of instance ${number}`);
  const cell = (label, ...inside) => h("td", { "data-label": label }, ...inside);
  const code = cell("Exit code");
  const attempts = cell("Attempts");
  const worker = cell("Worker");
  const message = cell("Message");
  const first = h("th", { scope: "row", "data-label": "Instance" }, button);
  const made = h("tr", {}, first, cell("State", state), code, attempts, worker, message);
  made.update = (one) => {
    sayState(state, one.state);
    say(code, one.exit_code ?? "");
    say(attempts, one.attempts || "");
    say(worker, one.worker);
    say(message, one.message);
    for (const part of [code, attempts, worker, message]) part.classList.toggle("empty", !part.textContent);
  };
  return made;
}
