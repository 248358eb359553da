// What is asked of the server, and its errors in plain words. Addresses are absolute, since that of the page may hold
// a key, with which a relative one could not be asked for.

import { plural } from "./parts.js";

// A request without a result; its title is a sentence
export class Refused extends Error {
  constructor(title, text) {
    super(text);
    this.title = title;
  }
}

const TITLES = {
  401: "The server needs its key",
  403: "The server does not accept questions from this page",
  413: "The question is too long",
  429: "The server is busy",
};

async function request(path, options = {}) {
  let reply;
  try {
    reply = await fetch(`${location.origin}${path}`, options);
  } catch {
    throw new Refused("The server cannot be reached", "Check that it is still running, then ask again.");
  }
  if (!reply.ok) throw await refusal(reply);
  return reply;
}

async function refusal(reply) {
  const { status } = reply;
  const title = TITLES[status] ?? (status >= 500 ? "The server failed" : "The server refused the question");
  if (status === 429) {
    const seconds = Math.ceil(Number(reply.headers.get("Retry-After")));
    return new Refused(title, seconds > 0 ? `Ask again in ${plural(seconds, "second")}.` : "Ask again in a moment.");
  }
  const message = await reply.json().then(
    (body) => body.error?.message,
    () => null, // of a proxy, say
  );
  return new Refused(title, typeof message === "string" ? message : `It replied with status ${status}.`);
}

export async function readGroup() {
  return (await request("/group")).json();
}

// Yields the type and the data of each event of a question
export async function* readEvents(asked, signal) {
  const body = JSON.stringify(asked);
  const headers = { "Content-Type": "application/json" };
  const reply = await request("/events", { method: "POST", headers, body, signal });
  try {
    yield* parse(reply.body);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error; // a TypeError is how the connection ends
    throw new Refused("The connection ended before the decision", "The server may have stopped. Ask again.");
  }
}

async function* parse(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let [type, data, rest] = ["message", [], []];
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest.push(value);
    if (!value.includes("\n")) continue;
    const lines = rest.join("").split(/\r?\n/);
    rest = [lines.pop()];
    for (const line of lines) {
      if (line.startsWith("event:")) type = line.slice(6).trim();
      if (line.startsWith("data:")) data.push(line.slice(5));
      if (line !== "") continue;
      if (data.length) yield [type, JSON.parse(data.join("\n"))];
      [type, data] = ["message", []];
    }
  }
}
