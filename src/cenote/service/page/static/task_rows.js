// Lists tasks: a card for each, with its state, how far it is, why it waits, and perhaps buttons.

import { taskButtons } from "./dialogs.js";
import { h, keyed, say, show } from "./elements.js";
import { badge, moment, progressWords, sayState } from "./words.js";

export function taskList(empty) {
  const list = h("ol", { class: "cards" });
  const nothing = h("p", { class: "quiet" }, empty);
  const made = h("div", {}, nothing, list);
  made.fill = (tasks, { buttons = false, numbered = false } = {}) => {
    show(nothing, tasks.length === 0);
    list.classList.toggle("numbered", numbered);
    keyed(list, tasks, (task) => task.id, () => row(buttons), (made, task) => made.update(task));
  };
  return made;
}

function row(withButtons) {
  const name = h("a", { class: "name" });
  const state = badge();
  const facts = h("p", { class: "quiet facts-line" });
  const progress = bar();
  const why = h("ul", { class: "why" });
  const made = h("li", { class: "card task" }, h("p", { class: "title" }, name, " ", state), facts, progress, why);
  const update = (task) => {
    say(name, task.name || task.id);
    name.href = task.run ? `#/runs/${task.id}` : `#/tasks/${task.id}`;
    sayState(state, task.state);
    const words = [`pool ${task.pool}`, task.user && `of ${task.user}`, `priority ${task.priority}`];
    const line = h("span", {}, words.filter(Boolean).join(" · "), " · submitted ", moment(task.submitted));
    if (!facts.firstChild?.isEqualNode(line)) facts.replaceChildren(line);
    progress.fill(task);
    keyed(why, task.why, (reason) => reason, (reason) => h("li", {}, reason), () => {});
    show(why, task.why.length > 0);
  };
  made.update = update;
  if (withButtons) {
    const actions = taskButtons((changed) => made.update(changed));
    made.append(actions);
    made.update = (task) => {
      update(task);
      actions.update(task);
    };
  }
  return made;
}

// How far a task is: the shares of its instances, and their numbers in words.
export function bar() {
  const words = h("span", { class: "quiet" });
  const parts = Object.fromEntries(
    ["succeeded", "failed", "cancelled", "running"].map((state) => [state, h("span", { class: `part ${state}` })]),
  );
  const made = h("div", { class: "progress" }, h("span", { class: "bar", "aria-hidden": "true" }, ...Object.values(parts)), words);
  made.fill = (task) => {
    const counts = { ...task.counts, running: (task.counts.running ?? 0) + (task.counts.assigned ?? 0) };
    for (const [state, part] of Object.entries(parts)) {
      part.style.width = `${(100 * (counts[state] ?? 0)) / Math.max(1, task.instances)}%`;
    }
    say(words, progressWords(task));
  };
  return made;
}
