// An answer as a reader sees it: Markdown, parsed by markdown-it and built of elements. No text of a model becomes HTML,
// nothing is loaded, and only the elements named here are made.

import MarkdownIt from "./markdown-it.js";
import { element } from "./parts.js";
import { cut, line, passage, visible } from "./text.js";

const parser = new MarkdownIt({ html: false });
const TAGS = new Set("p ul ol li blockquote table thead tbody tr th td em strong s hr".split(" "));
const INLINE = new Set(["text", "softbreak", "text_special"]);
const SHORT = 120; // a text of one line up to this length is shown as it is written, unless it has code
const MOST = 20_000; // characters that are parsed

// Whether an answer is a plain text, which may stand in a heading
export function isPlain(text) {
  const source = visible(text);
  const tokens = source.length > MOST ? [] : parser.parse(source, {});
  if (source.length > MOST || !tokens.length) return true;
  if (tokens.length !== 3 || tokens[0].type !== "paragraph_open") return false;
  const kinds = tokens[1].children.map(({ type }) => type);
  const isShort = source.length <= SHORT && !kinds.includes("code_inline") && !kinds.includes("link_open");
  return isShort || kinds.every((kind) => INLINE.has(kind));
}

// The element of an answer. `spans` marks parts of it: [start, end, class], in characters of `visible(text)`, in order and
// apart from each other; the pieces of the span at place i are `<span class="CLASS" data-span="i">`.
export function answerOf(text, spans = []) {
  const source = visible(text);
  if (source.length > MOST || (!spans.length && isPlain(text))) return passage(text);
  const box = element("div", { class: "said markdown", dir: "auto", tabindex: "0" });
  new Builder(source, spans).build(box, parser.parse(source, {}));
  return box;
}

// What stands in a link, if it is words alone; anything else may be read as an address
const WORDS = /^[\p{L}\p{M}\p{N}\s,;'’"()&+-]*$/u;

// Puts the address of a link behind its text where that looks like another one
function showAddress(made) {
  const address = made.getAttribute("title");
  if (!["A", "SPAN"].includes(made.tagName) || !address) return;
  const text = line(made.textContent);
  const own = [text, `http://${text}`, `https://${text}`, `mailto:${text}`];
  if (WORDS.test(text) || own.some((each) => address === each || address === `${each}/`)) return;
  const isCut = address.length > 200 && made.host; // a long name of a user may hide the host
  made.append(element("bdi", "address", ` [${isCut ? `${made.host}: ` : ""}${cut(address, 200)}]`));
}

class Builder {
  constructor(source, spans) {
    Object.assign(this, { source, spans, place: 0 });
  }

  build(root, tokens) {
    const open = [root];
    for (const token of tokens) {
      const parent = open.at(-1);
      if (token.type === "inline") this.build(parent, token.children);
      else if (token.type === "fence" || token.type === "code_block") parent.append(this.code(token));
      else if (token.nesting === 1) open.push(this.opened(parent, token));
      else if (token.nesting === -1) showAddress(open.pop());
      else this.single(parent, token);
    }
  }

  opened(parent, token) {
    if (token.hidden) return parent; // a paragraph of a tight list
    const made = token.type === "link_open" ? this.link(token) : element(nameOf(token.tag), attributesOf(token));
    parent.append(made);
    return made;
  }

  single(parent, token) {
    const { type, content } = token;
    if (type === "softbreak") parent.append("\n");
    else if (type === "hardbreak") parent.append(element("br"));
    else if (type === "hr") parent.append(element("hr"));
    else if (type === "code_inline") parent.append(element("code", {}, this.pieces(content)));
    else if (type === "image") parent.append(`[picture: ${content || "without a name"}]`); // not loaded
    else parent.append(...this.pieces(content));
  }

  // A link of a model: its address is shown, since its words may say another one
  link(token) {
    const address = visible(token.attrGet("href") ?? "");
    const isWeb = /^https?:/i.test(address);
    const options = { href: address, title: address, rel: "noopener noreferrer nofollow", target: "_blank" };
    return element(isWeb ? "a" : "span", isWeb ? options : { title: cut(address, 200) });
  }

  code({ content, info }) {
    const language = cut(visible(info ?? "").trim().split(/\s+/)[0] ?? "", 20);
    return codeBlock(language, this.pieces(content), content);
  }

  // A text in pieces, as the spans divide it. What markdown-it has changed, such as an entity, is in no span.
  pieces(text) {
    const start = this.source.indexOf(text, this.place);
    if (!text || start < 0) return [text];
    const end = (this.place = start + text.length);
    const found = [];
    let at = start;
    this.spans.forEach(([from, to, kind], number) => {
      const [first, last] = [Math.max(at, from), Math.min(end, to)];
      if (first >= last) return;
      if (first > at) found.push(this.source.slice(at, first));
      found.push(element("span", { class: kind, "data-span": String(number) }, this.source.slice(first, last)));
      at = last;
    });
    if (at < end) found.push(this.source.slice(at, end));
    return found;
  }
}

const nameOf = (tag) => (/^h[1-6]$/.test(tag) ? "h3" : TAGS.has(tag) ? tag : "span");

function attributesOf(token) {
  const start = token.tag === "ol" ? token.attrGet("start") : null;
  return start ? { start: String(Number(start)) } : {};
}

// Code with its name and a button that copies it; `pieces` are its parts as nodes
export function codeBlock(name, pieces, text) {
  const head = element("div", "code-head", element("span", "note", name), copyButton(() => text));
  return element("div", "code-block", head, element("pre", { dir: "ltr", tabindex: "0" }, element("code", {}, pieces)));
}

// A button that copies a text; null where the browser lets no page do so
export function copyButton(read, words = "Copy") {
  if (!navigator.clipboard) return null;
  const button = element("button", { type: "button", class: "small" }, words);
  button.addEventListener("click", async () => {
    const done = await navigator.clipboard.writeText(read()).then(
      () => "Copied",
      () => "Not copied",
    );
    button.textContent = done;
    setTimeout(() => (button.textContent = words), 1500);
  });
  return button;
}
