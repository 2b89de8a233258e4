// Shows what a task, or one of its instances, prints: its end, and from then on what is new.

import { h, say, show } from "./elements.js";
import { ask, path } from "./service.js";
import { bytes } from "./words.js";

const LAST = 65536; // bytes that are asked for first
const MOST = 400000; // characters that stay on the page
const TOO_MUCH = 1 << 20; // bytes of news, of which only the end is read
const COLOURS = new RegExp("\\u001b\\[[0-9;?]*[ -/]*[@-~]|\\u001b\\][^\\u0007]*\\u0007|\\u001b[@-Z\\\\-_]", "g");

// As a terminal would leave it: without its codes, and of lines that were written over only the last.
function asText(raw) {
  return raw
    .replace(COLOURS, "")
    .replace(/\r+\n/g, "\n")
    .replace(/[^\n]*\r(?!$)/g, "")
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g, "�");
}

export function outputPanel(task) {
  let stream = "stdout";
  let instance = null;
  let attempt = null;
  let next = null; // the number of the byte that comes next; null before the first look
  let decoder = new TextDecoder();
  let paused = false;
  let renew = () => {};
  const text = h("pre", { tabindex: "0", role: "log", "aria-live": "off", "aria-label": "Output" });
  const earlier = h("p", { class: "quiet", hidden: true });
  const nothing = h("p", { class: "quiet" }, "It has printed nothing so far.");
  const toggle = (words, act) => h("button", { type: "button", "aria-pressed": "false", onclick: act }, words);
  const streams = ["stdout", "stderr"].map((name) => toggle(name, () => choose({ stream: name })));
  const follow = toggle("Follow", () => {
    press(follow, !isPressed(follow));
    scroll();
  });
  const hold = toggle("Pause output", () => {
    paused = !paused;
    press(hold, paused);
    if (!paused) renew();
  });
  const whole = h("a", { download: true }, "Download all");
  const which = h("span", { class: "quiet" });
  const all = h("button", { type: "button", hidden: true, onclick: () => choose({ instance: null }) }, "All instances");
  press(follow, true);

  const made = h(
    "div",
    { class: "output" },
    h("div", { class: "buttons", role: "group", "aria-label": "Output" }, ...streams, follow, hold, all, whole),
    which,
    earlier,
    nothing,
    text,
  );
  // Who scrolls up wants to read: following stops, and begins again at the end.
  text.addEventListener("scroll", () => press(follow, text.scrollHeight - text.scrollTop - text.clientHeight < 24));

  function isPressed(button) {
    return button.getAttribute("aria-pressed") === "true";
  }

  function press(button, pressed) {
    button.setAttribute("aria-pressed", String(pressed));
  }

  function scroll() {
    if (isPressed(follow)) text.scrollTop = text.scrollHeight;
  }

  function reset() {
    next = null;
    decoder = new TextDecoder();
    text.replaceChildren();
    show(earlier, false);
    show(nothing, true);
    show(text, false);
    press(follow, true);
  }

  function choose(wanted) {
    if (wanted.stream !== undefined) stream = wanted.stream;
    if (wanted.instance !== undefined) [instance, attempt] = [wanted.instance, null];
    streams.forEach((button) => press(button, button.textContent === stream));
    say(which, instance === null ? "of all instances, as it came" : `of instance ${instance}`);
    show(all, instance !== null);
    whole.href = where();
    made.dispatchEvent(new CustomEvent("chosen", { detail: instance }));
    reset();
    renew();
  }

  function where(since = null) {
    const asked = new URLSearchParams();
    if (instance !== null) asked.set("instance", instance);
    if (since !== null) asked.set("since", since);
    return `${path("tasks", task, stream)}${asked.size ? `?${asked}` : ""}`;
  }

  async function read(since) {
    const stop = new AbortController();
    const answer = await ask(where(since), { signal: stop.signal });
    if (since >= 0 && Number(answer.headers.get("Content-Length")) > TOO_MUCH) {
      stop.abort();
      reset();
      return read(-LAST);
    }
    return { first: Number(answer.headers.get("Cenote-First-Byte")), data: new Uint8Array(await answer.arrayBuffer()) };
  }

  made.choose = choose;
  made.focusText = () => (text.hidden ? hold : text).focus({ preventScroll: true });
  made.refresh = async (again, attempts = null) => {
    renew = again;
    if (instance !== null && attempts !== attempt) {
      if (attempt !== null) reset(); // it was begun again
      attempt = attempts;
    }
    if (paused) return;
    const asked = [stream, instance];
    const { first, data } = await read(next ?? -LAST);
    if (asked[0] !== stream || asked[1] !== instance) return; // another one was chosen meanwhile
    if (next === null && first > 0) {
      say(earlier, `The last ${bytes(LAST)} are shown; ${bytes(first)} came before.`);
      show(earlier, true);
    }
    next = first + data.length;
    if (!data.length) return;
    show(nothing, false);
    show(text, true);
    text.append(asText(decoder.decode(data, { stream: true })));
    while (text.childNodes.length > 1 && text.textContent.length > MOST) text.firstChild.remove();
    scroll();
  };
  choose({});
  return made;
}
