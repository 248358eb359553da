// Words, and what models, agents and the server wrote: see parts.js for how it reaches the document.

import { element } from "./parts.js";

// What does not show, or reverses what does; but a joiner between characters beyond ASCII, and an emoji's selector
const BESIDE = "[^\\0-\\x7f\\u200b-\\u200f\\ufe00-\\ufe0f]";
const JOINED = `(?<=${BESIDE})(?:\\ufe0f?[\\u200c\\u200d](?=${BESIDE})|\\ufe0f)`;
const CONTROLS = new RegExp(`(${JOINED})|(?!\\n|\\t)[\\p{C}\\p{Zl}\\p{Zp}\\p{Default_Ignorable_Code_Point}\\u2800]`, "gu");
const NUMBERS = "no one two three four five six seven eight nine ten eleven twelve".split(" ");
const SHOWN = 900; // characters of a longer text, before somebody asks for all of it

export const visible = (text) => String(text).replace(/\r\n?/g, "\n").replace(CONTROLS, (_, joined) => joined ?? "\ufffd");
export const line = (text) => visible(text).replace(/\s+/g, " ").trim();

export function cut(text, limit) {
  return text.length <= limit ? text : `${text.slice(0, limit - 1).replace(/[\ud800-\udbff]$/, "")}…`;
}

export const short = (text, limit = 120) => cut(line(text), limit);
export const inWords = (n) => NUMBERS[n] ?? String(n);
export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
export const number = (value, digits = 3) => (typeof value === "number" ? value.toFixed(digits) : "–");
export const percent = (share) => `${Math.round(100 * share)} %`;

export function listed(parts) {
  return parts.length > 1 ? `${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}` : parts.join("");
}

// One line of untrusted text, which cannot change the direction of what follows
export const inline = (text, limit) => element("bdi", "said", short(text, limit));

// Untrusted text with its lines; a long one is shown in part, with a button for the rest
export function passage(text) {
  const whole = visible(text);
  const body = element("bdi", "said", whole.trim() ? cut(whole, SHOWN) : "(no text)");
  const box = element("span", "passage", body);
  if (whole.length > 300 || whole.split("\n").length > 5) box.tabIndex = 0; // it may scroll
  if (whole.length <= SHOWN) return box;
  const words = `Show all ${whole.length.toLocaleString("en")} characters`;
  const button = element("button", { type: "button", class: "small" }, words);
  button.addEventListener("click", () => {
    body.textContent = whole;
    button.remove();
    box.focus();
  });
  return element("span", {}, box, button);
}
