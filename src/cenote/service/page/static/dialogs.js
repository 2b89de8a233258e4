// Asks people before something is done, and shows in the service's own words what it refuses.

import { h, say, show } from "./elements.js";
import { get, path, post } from "./service.js";
import { OVER } from "./words.js";

const news = document.getElementById("news");

// One sentence for everybody, also for those who listen.
export function tell(words) {
  news.replaceChildren(h("p", {}, words));
  clearTimeout(news.timer);
  news.timer = setTimeout(() => news.replaceChildren(), 8000);
}

const dialog = document.getElementById("dialog");
dialog.addEventListener("click", (event) => {
  if (event.target === dialog) dialog.close(); // beside it
});

// Opens until it is done or left; `act` gets the value of the field, and may refuse.
function question({ title, text, field = null, label = "", button, dangerous = false, act }) {
  const refused = h("p", { class: "refused", role: "alert", hidden: true });
  const go = h("button", { class: dangerous ? "dangerous" : "first" }, button);
  const submit = async (event) => {
    event.preventDefault();
    go.disabled = true;
    try {
      tell(await act(field?.value));
      dialog.close();
    } catch (problem) {
      say(refused, problem.words ?? problem.message);
      show(refused, true);
    } finally {
      go.disabled = false;
    }
  };
  dialog.replaceChildren(
    h(
      "form",
      { onsubmit: submit },
      h("h2", { id: "dialog-title" }, title),
      text && h("p", {}, text),
      field && h("label", {}, label, " ", field),
      refused,
      h("div", { class: "buttons" }, h("button", { type: "button", onclick: () => dialog.close() }, "Back"), go),
    ),
  );
  dialog.showModal();
  (field ?? go).focus();
}

async function change(task, verb, given) {
  return post(`${path("tasks", task.id)}/${verb}`, given);
}

function cancel(task, changed) {
  question({
    title: `Cancel ‘${task.name}’?`,
    text: "What it runs is stopped, and nothing more of it begins. This cannot be undone.",
    button: "Cancel the task",
    dangerous: true,
    act: async () => {
      changed(await change(task, "cancel"));
      return `Task ${task.name} is cancelled`;
    },
  });
}

function prioritise(task, changed) {
  const field = h("input", { type: "number", step: "1", required: true, value: task.priority });
  question({
    title: `Priority of ‘${task.name}’`,
    text: "Higher ones come first; where a pool is shared fairly, among the tasks of one user.",
    field,
    label: "Priority",
    button: "Change",
    act: async (value) => {
      changed(await change(task, "priority", { priority: Number(value) }));
      return `Task ${task.name} has priority ${value}`;
    },
  });
}

async function move(task, changed) {
  const others = (await get("/v1/pools")).filter((pool) => pool.name !== task.pool);
  const options = others.map((pool) => h("option", { value: pool.name }, pool.title || pool.name));
  const field = others.length ? h("select", { required: true }, ...options) : null;
  question({
    title: `Move ‘${task.name}’`,
    text: field
      ? "What waits will wait for another pool; what runs stays where it is."
      : `There is no other pool than ${task.pool}.`,
    field,
    label: "Pool",
    button: "Move",
    act: async (pool) => {
      if (!pool) return "Nothing was moved";
      changed(await change(task, "move", { pool }));
      return `Task ${task.name} waits for pool ${pool}`;
    },
  });
}

// The buttons of a task; `update` says what it is like by now, `changed` hears what it became.
export function taskButtons(changed) {
  let task = null;
  const refused = h("p", { class: "refused", role: "alert", hidden: true });
  const attempt = (act) => async () => {
    show(refused, false);
    try {
      await act();
    } catch (problem) {
      say(refused, problem.words ?? problem.message);
      show(refused, true);
    }
  };
  const button = (words, act, given = {}) => h("button", { type: "button", ...given, onclick: attempt(act) }, words);
  const pause = button("Pause", async () => {
    const resumes = task.state === "Paused";
    const before = task;
    changed({ ...task, state: resumes ? "Submitted" : "Paused" }); // shown at once, and taken back where it is refused
    try {
      changed(await change(task, resumes ? "resume" : "pause"));
    } catch (problem) {
      changed(before);
      throw problem;
    }
    tell(`Task ${task.name} is ${resumes ? "resumed" : "paused"}`);
  });
  const buttons = h(
    "div",
    { class: "buttons", role: "group" },
    pause,
    button("Priority …", () => prioritise(task, changed)),
    button("Move …", () => move(task, changed)),
    button("Cancel …", () => cancel(task, changed), { class: "dangerous" }),
  );
  const made = h("div", { class: "actions" }, buttons, refused);
  made.update = (found) => {
    task = found;
    say(pause, task.state === "Paused" ? "Resume" : "Pause");
    for (const each of buttons.children) each.setAttribute("aria-label", `${each.textContent} ${task.name || task.id}`);
    buttons.setAttribute("aria-label", `Change ${task.name || task.id}`);
    show(buttons, !OVER.includes(task.state));
  };
  return made;
}
