// Makes and changes elements. Whatever comes from the service becomes text, never a tag.

export function h(tag, given = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

export function svg(tag, given = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(given)) made.setAttribute(name, String(value));
  made.append(...children);
  return made;
}

// Changes a text only where it differs, so that nothing flickers and nothing is read out twice.
export function say(element, text) {
  if (element.textContent !== String(text)) element.textContent = String(text);
}

export function show(element, visible) {
  element.hidden = !visible;
}

// Rows for items: those that stay are changed in place and keep the focus; `make` gives a new one, `update` fills it.
export function keyed(list, items, key, make, update) {
  const wanted = new Set(items.map((item) => String(key(item))));
  const focused = list.contains(document.activeElement) ? document.activeElement : null;
  const before = new Map();
  for (const row of [...list.children]) {
    if (wanted.has(row.dataset.key)) before.set(row.dataset.key, row);
    else row.remove();
  }
  let place = list.firstElementChild;
  for (const item of items) {
    const name = String(key(item));
    let row = before.get(name);
    if (!row) {
      row = make(item);
      row.dataset.key = name;
    }
    update(row, item);
    if (row === place) place = place.nextElementSibling;
    else list.insertBefore(row, place);
  }
  if (focused && document.activeElement !== focused) {
    if (focused.isConnected) focused.focus({ preventScroll: true });
    else document.querySelector("main h1")?.focus({ preventScroll: true });
  }
}

let titles = 0;

// A part of a view, with a heading that names it.
export function section(title, ...children) {
  titles += 1;
  const id = `title-${titles}`;
  return h("section", { "aria-labelledby": id }, h("h2", { id }, title), ...children);
}

export function heading(...words) {
  return h("h1", { tabindex: "-1" }, ...words);
}

export function tile(name) {
  const value = h("strong", {}, "–");
  const detail = h("span", { class: "detail" });
  const made = h("li", {}, h("span", { class: "name" }, name), value, detail);
  made.fill = (words, more = "") => {
    say(value, words);
    say(detail, more);
  };
  return made;
}

export function pairs(names) {
  const values = {};
  const list = h("dl", { class: "facts" });
  for (const name of names) {
    const value = h("dd");
    const row = h("div", {}, h("dt", {}, name), value);
    list.append(row);
    values[name] = (words) => {
      show(row, words !== "" && words !== null && words !== undefined);
      if (words instanceof Node) {
        if (!value.firstChild?.isEqualNode(words)) value.replaceChildren(words);
      } else say(value, words ?? "");
    };
  }
  return { list, values };
}
