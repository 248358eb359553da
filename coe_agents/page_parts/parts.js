// What all pages share: the report, the page of runs, and that of `serve`. What models wrote reaches the document as
// text nodes only: `append` makes one of every string.

export const byId = (id) => document.getElementById(id);

// An element; the attributes may be just the class, and children that are null are omitted
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  set(made, typeof attributes === "string" ? { class: attributes } : attributes);
  made.append(...children.flat().filter((child) => child !== null));
  return made;
}

export function shape(name, attributes = {}, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  set(made, attributes);
  made.textContent = text;
  return made;
}

export function set(node, attributes) {
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
}

export const plural = (n, one) => `${n} ${one}${n === 1 ? "" : "s"}`;
export const label = (value) => String(Math.round(value * 1000) / 1000);

// At most seven round values, for an axis
export function ticks(least, most) {
  const step = [0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5].find((size) => (most - least) / size <= 6) ?? 10;
  const found = [];
  for (let i = Math.ceil(least / step - 1e-9); i * step <= most + 1e-9; i++) found.push(i * step);
  return found;
}

// Values from the screen: where a pointer is in an SVG that is 480 units wide
export function placeOf(svg, event) {
  const box = svg.getBoundingClientRect();
  const scale = 480 / box.width;
  return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
}

// The button that turns a dark page light, and back
export function offerTheme() {
  byId("theme").hidden = false;
  byId("theme").addEventListener("click", () => {
    const { style } = document.documentElement;
    const isDark = style.colorScheme ? style.colorScheme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    style.colorScheme = isDark ? "light" : "dark";
  });
}
