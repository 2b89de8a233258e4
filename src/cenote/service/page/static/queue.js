// Shows what waits, pool by pool in the order in which it would start, with buttons.

import { h, heading, keyed, section } from "./elements.js";
import { get } from "./service.js";
import { taskList } from "./task_rows.js";

export function openQueue(place) {
  const pools = h("div");
  const held = taskList("Nothing is held back.");
  const heldPart = section("Held back: paused, or after other tasks", held);
  const nothing = h("p", { class: "quiet" }, "There is no pool to wait for.");
  place.append(heading("Queue"), nothing, pools, heldPart);
  return {
    title: "Queue",
    async refresh() {
      const states = ["Submitted", "Paused"].map((state) => get(`/v1/tasks?state=${state}&most=300`));
      const [queue, ...tasks] = await Promise.all([get("/v1/queue"), ...states]);
      const names = Object.keys(queue);
      nothing.hidden = names.length > 0;
      keyed(pools, names, (name) => name, poolPart, (part, name) => part.fill(queue[name]));
      const queued = new Set(Object.values(queue).flatMap((waiting) => waiting.map((task) => task.id)));
      const back = tasks.flat().filter((task) => !queued.has(task.id));
      held.fill(back, { buttons: true });
      heldPart.hidden = back.length === 0;
    },
  };
}

function poolPart(name) {
  const list = taskList("Nothing waits for this pool.");
  const link = h("a", { href: `#/pools/${encodeURIComponent(name)}` }, name);
  const made = section("Pool ", list);
  made.querySelector("h2").append(link);
  made.fill = (tasks) => list.fill(tasks, { buttons: true, numbered: true });
  return made;
}
