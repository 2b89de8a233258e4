// Lists tasks, the latest first, all or those in a state.

import { h, heading, section } from "./elements.js";
import { get } from "./service.js";
import { taskList } from "./task_rows.js";
import { plain } from "./words.js";

const STATES = ["", "Submitted", "Paused", "PartiallyExecuting", "FullyExecuting", "Success", "Failure", "Cancelled"];
const MOST = 100;

export function openTasks(place) {
  let again = () => {};
  const list = taskList("There is no such task.");
  const options = STATES.map((state) => h("option", { value: state }, state ? plain(state) : "all states"));
  const states = h("select", { onchange: () => again() }, ...options);
  const more = h("p", { class: "quiet" }, `These are the latest ${MOST}; `, h("code", {}, "cenote tasks"), " lists more.");
  place.append(heading("Tasks"), section("The latest first", h("label", {}, "In ", states), list, more));
  return {
    title: "Tasks",
    async refresh(renew) {
      again = renew;
      const state = states.value ? `&state=${states.value}` : "";
      const tasks = await get(`/v1/tasks?most=${MOST}${state}`);
      list.fill(tasks);
      more.hidden = tasks.length < MOST;
    },
  };
}
