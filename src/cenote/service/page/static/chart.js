// Draws slots over time, and the work of pools in a run, as SVG that fills its place.

import { h, say, svg } from "./elements.js";
import { span } from "./words.js";

const WIDTH = 600;

export const round = (number) => String(number < 10 ? Math.round(number * 10) / 10 : Math.round(number));

// Points until the next time that nothing is known, and when that is.
function knownParts(history) {
  const parts = [];
  let part = null;
  for (const point of history.points) {
    if (point.known === false) {
      if (part) part.end = point.at;
      part = null;
    } else if (part) part.points.push(point);
    else parts.push((part = { points: [point], end: history.now }));
  }
  return parts;
}

function unknownParts(history) {
  const next = (place) => history.points[place + 1]?.at ?? history.now;
  return history.points.flatMap((point, place) => (point.known === false ? [[point.at, next(place)]] : []));
}

// A picture of the last seconds: `layers` are [class, value of a point, whether it is filled], `most` is at its top.
function drawing(history, seconds, { height, most, layers, words }) {
  const x = (at) => Math.min(WIDTH, Math.max(0, ((at - history.now + seconds) / seconds) * WIDTH)).toFixed(1);
  const y = (value) => (height - 1 - (value / most) * (height - 4)).toFixed(1);
  const made = svg("svg", { viewBox: `0 0 ${WIDTH} ${height}`, preserveAspectRatio: "none", role: "img" });
  made.setAttribute("aria-label", words);
  made.append(svg("title", {}, words));
  for (const [from, to] of unknownParts(history)) {
    const given = { x: x(from), y: 0, width: Math.max(0, x(to) - x(from)), height, class: "unknown" };
    made.append(svg("rect", given, svg("title", {}, "not known: the service did not run")));
  }
  for (const { points, end } of knownParts(history)) {
    for (const [kind, value, filled] of layers) {
      const line = points.flatMap((point, place) => {
        const level = y(value(point));
        return [`${x(point.at)},${level}`, `${x(points[place + 1]?.at ?? end)},${level}`];
      });
      const closed = [`${x(points[0].at)},${height}`, ...line, `${x(end)},${height}`];
      if (filled) made.append(svg("polygon", { points: closed.join(" "), class: kind }));
      else made.append(svg("polyline", { points: line.join(" "), class: kind }));
    }
  }
  return made;
}

const total = (point) => point.busy + point.free;

export const SLOTS = {
  layers: [
    ["busy", (point) => point.busy, true],
    ["capacity", total, false],
  ],
  top: total,
  words: (last, peak, over) =>
    `Slots in use over the last ${over}: ${round(last.busy)} of ${round(total(last))} now, ${round(peak((one) => one.busy))} at most`,
};

export const WAITING = {
  layers: [["waits", (point) => point.waiting, true]],
  top: (point) => point.waiting,
  words: (last, peak, over) =>
    `Instances that waited over the last ${over}: ${round(last.waiting)} now, ${round(peak((one) => one.waiting))} at most`,
};

// A chart with its scale beside it; `fill` draws it anew.
export function chart(kind, height) {
  const place = h("div", { class: "drawing" });
  const scale = h("span", { class: "scale", "aria-hidden": "true" });
  const since = h("span");
  const made = h("figure", { class: "chart" }, scale, place, h("figcaption", {}, since, h("span", {}, "now")));
  made.fill = (history, seconds) => {
    const known = history.points.filter((one) => one.known !== false);
    const peak = (value) => Math.max(0, ...known.map(value));
    const most = Math.max(1, peak(kind.top));
    const words = known.length ? kind.words(known.at(-1), peak, span(seconds)) : "Nothing is known yet";
    place.replaceChildren(drawing(history, seconds, { height, most, layers: kind.layers, words }));
    say(scale, round(most));
    say(since, `${span(seconds)} ago`);
  };
  return made;
}

// One lane for each pool of a run, with the tasks that it ran at once.
export function lanes(timeline, seconds) {
  const made = h("div", { class: "lanes" });
  timeline.forEach((lane, place) => {
    const most = Math.max(...lane.running, 0) || 1;
    const step = WIDTH / lane.running.length;
    const points = lane.running.flatMap((value, at) => {
      const y = (40 - (38 * value) / most).toFixed(1);
      return [`${(at * step).toFixed(1)},${y}`, `${((at + 1) * step).toFixed(1)},${y}`];
    });
    const words = `Pool ${lane.pool} ran up to ${round(most)} tasks at once over ${span(seconds)}`;
    made.append(
      h("span", { class: "lane-name" }, lane.pool, h("span", { class: "detail" }, `up to ${round(most)}`)),
      h(
        "div",
        { class: "drawing" },
        svg(
          "svg",
          { viewBox: `0 0 ${WIDTH} 40`, preserveAspectRatio: "none", role: "img", "aria-label": words },
          svg("title", {}, words),
          svg("polygon", { points: `0,40 ${points.join(" ")} ${WIDTH},40`, class: `lane lane${place % 5}` }),
        ),
      ),
    );
  });
  made.append(h("span"), h("div", { class: "axis" }, h("span", {}, "0"), h("span", {}, span(seconds))));
  return made;
}
