"use strict";
// What models, agents and the server wrote reaches the document as text nodes only: `append` makes one of every string.

const byId = (id) => document.getElementById(id);

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function shape(name, attributes = {}, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}

// ---------------------------------------------------------------------------------------------- words

const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g;
const NUMBERS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];
const REGIMES = {
  consensus: ["confident, and agree", "little doubt within the agents, little disagreement between them"],
  conflict: ["confident, but disagree", "little doubt within the agents, much disagreement between them"],
  ambiguous: ["unsure, but alike", "much doubt within the agents, little disagreement between them"],
  unknown: ["unsure, and disagree", "much doubt within the agents, much disagreement between them"],
};
const MOSTLY = 0.9; // from this share of its responses on, an agent says one thing
const SHOWN = 900; // characters of a longer text, before somebody asks for all of it

const visible = (text) => String(text).replace(/\r\n?/g, "\n").replace(CONTROLS, "\ufffd");
const line = (text) => visible(text).replace(/\s+/g, " ").trim();
const cut = (text, limit) => (text.length <= limit ? text : `${text.slice(0, limit - 1).replace(/[\ud800-\udbff]$/, "")}…`);
const short = (text, limit = 120) => cut(line(text), limit);
const plural = (n, one, many = `${one}s`) => `${n} ${n === 1 ? one : many}`;
const inWords = (n) => NUMBERS[n] ?? String(n);
const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
const listed = (parts) => (parts.length > 1 ? `${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}` : parts.join(""));
const number = (value, digits = 3) => (typeof value === "number" ? value.toFixed(digits) : "–");
const percent = (share) => `${Math.round(100 * share)} %`;
const quoted = (text, limit = 80) => `“${short(text, limit)}”`;

// One line of untrusted text, in its own direction
const inline = (text, limit) => element("bdi", { class: "said" }, short(text, limit));

// Untrusted text with its lines; a long one is shown in part, with a button for the rest
function passage(text) {
  const whole = visible(text);
  const body = element("bdi", { class: "said" }, whole.trim() ? cut(whole, SHOWN) : "(no text)");
  const box = element("span", { class: "passage" }, body);
  if (whole.length > 300 || whole.split("\n").length > 5) box.tabIndex = 0; // it may scroll
  if (whole.length > SHOWN) {
    const button = element("button", { type: "button", class: "small" }, `Show all ${whole.length.toLocaleString("en")} characters`);
    button.addEventListener("click", () => {
      body.textContent = whole;
      button.remove();
      box.focus();
    });
    return element("span", {}, box, button);
  }
  return box;
}

// The clauses of a reason; a semicolon within double quotes, where models are quoted, does not end one
function clauses(reason) {
  const found = [""];
  let within = false;
  for (const character of line(reason)) {
    if (character === '"') within = !within;
    if (character === ";" && !within) found.push("");
    else found[found.length - 1] += character;
  }
  return found.map((clause) => clause.trim()).filter(Boolean);
}

const unquoted = (text) => text.replace(/"[^"]*"/g, "");

// The reason as two sentences: who says what, and the numbers
function sentences(decision) {
  const all = clauses(decision.reason);
  const numeric = all.filter((clause) => /\d\.\d/.test(unquoted(clause)));
  const plain = all.filter((clause) => !numeric.includes(clause));
  const named = Object.keys(decision.agents ?? {}).some((name) => all[0]?.startsWith(`${line(name)} `));
  const sentence = (parts) => (parts.length ? `${named ? parts.join("; ") : capital(parts.join("; "))}.` : "");
  return { plain: sentence(plain), numeric: numeric.length ? `${capital(numeric.join("; "))}.` : "" };
}

// Whether each part of the first clause, which says who says what, says that they decline
function areDeclining(decision) {
  const parts = unquoted(clauses(decision.reason)[0] ?? "").split(",");
  return parts.every((part) => /\bdeclines? to answer\b|\bdid not answer\b/.test(part)) && /declines? to answer/.test(parts[0]);
}

// Why there is no answer, as a sentence
function cause(decision) {
  if (decision.is_late) return "The time was up";
  if (decision.coe === null) return "No agent answered";
  if (decision.regime === null) return "Too few agents answered";
  if (decision.tied?.length) return "It is a tie";
  if (areDeclining(decision)) return "They decline to answer";
  const answers = Object.values(decision.agents ?? {}).map((agent) => {
    const shares = Object.entries(agent.distribution);
    const most = shares.filter(([, share]) => share >= MOSTLY);
    return (most.length ? most : shares).map(([text]) => text).sort().join("\0");
  });
  if (decision.regime === "ambiguous") return "They are not sure";
  if (answers.length > 1 && answers.some((own) => own !== answers[0])) return "They disagree";
  if (answers.some((own) => own.includes("\0"))) return "They are not sure";
  return "The gate withholds the answer";
}

// ------------------------------------------------------------------------------------- what is known

const session = { group: null, entries: [], shown: null, running: null };
const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const COLOURS = 6; // the meanings after these share one

const letter = (place) => (place < LETTERS.length ? LETTERS[place] : `${place + 1}`);
const colour = (place) => `meaning-${Math.min(place, COLOURS)}`;

function newEntry(question, options) {
  const agents = new Map(session.group.agents.map((name) => [name, { name, state: "waiting", attempts: 0 }]));
  return { question, options, agents, round: 0, rounds: [], sizes: null, measured: null, decision: null, error: null, seconds: null, start: performance.now() };
}

// Adds an event of the graph to what is known of a question
const HANDLERS = {
  agent_asked(entry, event) {
    startRound(entry, event.round);
    const agent = agentOf(entry, event.agent);
    Object.assign(agent, { state: "asked", attempts: agent.attempts + 1, since: performance.now() });
    announce(`${short(agent.name)} is asked`);
  },
  agent_sampled(entry, event) {
    const agent = agentOf(entry, event.agent);
    Object.assign(agent, { state: event.error === null ? "answered" : "failed", error: event.error, n: event.n_responses, seconds: event.seconds });
    announce(`${short(agent.name)} ${event.error === null ? "answered" : "failed"}`);
  },
  clustered(entry, event) {
    entry.sizes = event.sizes;
    announce(`${plural(event.sizes.reduce((sum, size) => sum + size, 0), "answer")} in ${plural(event.n_clusters, "meaning")}`);
  },
  measured(entry, event) {
    entry.measured = event;
  },
  decided(entry, event) {
    entry.rounds.push({ round: event.round, action: event.action, reason: event.reason, sizes: entry.sizes, coe: entry.measured?.coe ?? null });
  },
  ruled(entry, event) {
    entry.ruled = event;
  },
  decision(entry, event) {
    entry.responses = responsesOf(event);
    entry.decision = event;
    entry.seconds = event.seconds ?? (performance.now() - entry.start) / 1000;
  },
  error(entry, event) {
    entry.error = { title: "The group could not be asked", text: event.message };
  },
};

function startRound(entry, round) {
  if (round <= entry.round) return;
  entry.round = round;
  entry.measured = null;
  for (const agent of entry.agents.values()) Object.assign(agent, { state: "waiting", attempts: 0, error: null });
}

function agentOf(entry, name) {
  if (!entry.agents.has(name)) entry.agents.set(name, { name, state: "waiting", attempts: 0 });
  return entry.agents.get(name);
}

// The responses that count, each with its agent and the representative of its cluster
function responsesOf(decision) {
  const all = Object.entries(decision.responses ?? {}).flatMap(([agent, own]) => own.map((response) => ({ agent, ...response })));
  return all.filter(({ cluster }) => cluster !== null).map((response) => ({ ...response, meaning: decision.clusters[response.cluster]?.representative }));
}

// The numbers that a gate compares: under another divergence than KL, rescaled to its range
function comparable(decision) {
  const { coe, aleatoric, epistemic } = decision;
  const rescaled = /rescaled to (\d+\.\d+)/.exec(unquoted(decision.reason ?? ""));
  if (coe === null || (decision.divergence ?? "kl") === "kl" || !rescaled) return { coe, aleatoric, epistemic };
  if (gate.isRegime) return { coe: aleatoric + Number(rescaled[1]), aleatoric, epistemic: Number(rescaled[1]) };
  return { coe: Number(rescaled[1]), aleatoric, epistemic: Math.max(0, Number(rescaled[1]) - aleatoric) };
}

// The meanings of a decision, the best supported first, with the agents and the responses of each
function meaningsOf({ decision, responses }) {
  const shares = Object.entries(decision.support ?? {}).sort(([a, p], [b, q]) => q - p || (a < b ? -1 : 1));
  const found = new Map(shares.map(([text, share], place) => [text, { text, share, place, agents: [], responses: [] }]));
  for (const [name, agent] of Object.entries(decision.agents ?? {})) {
    for (const [text, share] of Object.entries(agent.distribution)) found.get(text)?.agents.push({ name, share });
  }
  for (const response of responses) found.get(response.meaning)?.responses.push(response);
  for (const meaning of found.values()) meaning.agents.sort((a, b) => b.share - a.share);
  return [...found.values()];
}

// ------------------------------------------------------------------------------------------ the server

class Refused extends Error {
  constructor(title, text) {
    super(text);
    this.title = title;
  }
}

async function ask(question, options = {}) {
  session.running?.abort();
  const control = new AbortController();
  const entry = newEntry(question, options);
  session.running = control;
  session.entries.push(entry);
  show(entry);
  bringIntoView();
  try {
    const reply = await fetch(`${location.origin}/events`, {
      method: "POST",
      headers: { "Content-Type": "application/json", Accept: "text/event-stream" },
      body: JSON.stringify({ question, coe: options }),
      signal: control.signal,
    });
    if (!reply.ok) throw await refusal(reply);
    for await (const [type, event] of eventsOf(reply.body)) {
      if (Object.hasOwn(HANDLERS, type)) HANDLERS[type](entry, event);
      if (session.shown === entry) render(entry);
    }
    if (!entry.decision && !entry.error) throw new Refused("The connection ended before the decision", "The server may have been stopped. Ask again.");
  } catch (error) {
    entry.error = described(error, control.signal.aborted);
    if (!(error instanceof Refused) && !(error instanceof TypeError) && !control.signal.aborted) console.error(error);
  } finally {
    if (session.running === control) session.running = null;
    for (const agent of entry.agents.values()) if (agent.state === "asked") agent.state = "stopped";
    if (session.shown === entry) render(entry);
  }
}

function described(error, stopped) {
  if (stopped) return { title: "Stopped", text: "You stopped this question before the decision." };
  if (error instanceof Refused) return { title: error.title, text: error.message };
  if (error instanceof TypeError) return { title: "The server cannot be reached", text: "Check that it is still running, then ask again." };
  return { title: "The reply cannot be shown", text: error.message };
}

// The reason of a refused request, in plain words
async function refusal(reply) {
  let said = "";
  try {
    const body = await reply.json();
    said = body.error?.message ?? body.message ?? body.detail ?? body.error ?? "";
  } catch {
    said = "";
  }
  said = typeof said === "string" ? said : "";
  const wait = Number(reply.headers.get("Retry-After"));
  const titles = {
    401: "This server needs its key",
    403: "The server does not accept requests from this page",
    413: "The question is too long",
    429: "The server is busy",
  };
  const fallback = {
    401: "Open the page again and enter the key.",
    413: "Shorten it, then ask again.",
    429: wait > 0 ? `Ask again in ${plural(Math.ceil(wait), "second")}.` : "Ask again in a moment.",
  };
  const title = titles[reply.status] ?? (reply.status >= 500 ? "The server failed" : "The server refused the question");
  const known = reply.status === 429 ? fallback[429] : said || fallback[reply.status];
  return new Refused(title, known ?? `It replied with status ${reply.status}.`);
}

// Yields type and data of each server-sent event
async function* eventsOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let type = "message";
  let data = [];
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop();
    for (const text of lines) {
      if (text === "") {
        if (data.length) yield [type, JSON.parse(data.join("\n"))];
        type = "message";
        data = [];
      } else if (text.startsWith("event:")) {
        type = text.slice(6).trim();
      } else if (text.startsWith("data:")) {
        data.push(text.slice(5).replace(/^ /, ""));
      }
    }
  }
}

// ------------------------------------------------------------------------------------------ one question

function show(entry) {
  session.shown = entry;
  byId("result").hidden = false;
  render(entry);
}

// On a small screen the form hides what follows it
function bringIntoView() {
  const verdict = byId("verdict");
  const { top } = verdict.getBoundingClientRect();
  if (top >= 0 && top < 0.6 * innerHeight) return;
  verdict.scrollIntoView({ block: "start", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
}

function announce(text) {
  byId("state").textContent = text;
}

function render(entry) {
  const done = entry.decision !== null;
  byId("result").setAttribute("aria-busy", String(!done && !entry.error));
  byId("stop").hidden = session.running === null;
  byId("agents").hidden = entry.error !== null && [...entry.agents.values()].every((agent) => agent.state === "waiting");
  showVerdict(entry);
  showAgents(entry);
  for (const id of ["said", "numbers"]) byId(id).hidden = !done;
  if (done) {
    showMeanings(entry);
    showNumbers(entry);
  }
  gate?.update();
}

function showVerdict(entry) {
  const { decision, error } = entry;
  byId("asked").textContent = cut(visible(entry.question), 600);
  const kind = error && !decision ? "failed" : (decision?.action ?? "running");
  byId("verdict").dataset.kind = kind;
  const tags = { answer: "Answer", abstain: "No answer", escalate: "Escalated", failed: "No result", running: "In progress" };
  byId("tag").textContent = tags[kind] ?? "No answer";
  const title = byId("verdict-title");
  const why = byId("why");
  byId("gauge").replaceChildren();
  title.classList.remove("long");
  if (kind === "running") {
    title.replaceChildren(element("span", { class: "working" }, step(entry)));
    why.replaceChildren(...unknownYet(entry));
    return;
  }
  if (kind === "failed") {
    title.replaceChildren(error.title);
    why.replaceChildren(passage(error.text));
    announce(`${error.title}. ${short(error.text)}`);
    return;
  }
  const { plain } = sentences(decision);
  const headline = kind === "answer" ? passage(decision.answer) : kind === "escalate" ? "Somebody else must decide" : cause(decision);
  title.replaceChildren(headline);
  title.classList.toggle("long", kind === "answer" && visible(decision.answer).length > 120);
  const notes = [];
  if (plain) notes.push(element("p", {}, inline(plain, 1200)));
  if (decision.decided_by && decision.decided_by !== "group") notes.push(element("p", {}, "Decided by ", inline(decision.decided_by), ", after the group escalated."));
  if (decision.n_rounds > 1) notes.push(element("p", {}, `Decided after ${inWords(decision.n_rounds)} rounds.`));
  for (const [name, reason] of Object.entries(decision.failed_agents ?? {})) {
    notes.push(element("p", { class: "trouble" }, inline(name), " did not answer: ", inline(reason, 400)));
  }
  why.replaceChildren(...notes);
  byId("gauge").replaceChildren(...gauge(decision));
  announce(kind === "answer" ? `Answer: ${short(decision.answer)}` : `${tags[kind]}. ${typeof headline === "string" ? headline : ""}.`);
}

// What the gate compares, on a line with its threshold
function gauge(decision) {
  if (decision.coe === null) return [];
  const { aleatoric, epistemic } = comparable(decision);
  const limits = decision.thresholds ?? {}; // of this request, which may be stricter
  const part = (kind, words) => element("span", { class: "key" }, element("span", { class: `swatch ${kind}`, "aria-hidden": "true" }), words);
  if (gate.isRegime) {
    return [
      ...scale("Doubt within agents", [["aleatoric", aleatoric]], limits.aleatoric_threshold ?? gate.own.aleatoric),
      ...scale("Disagreement between them", [["epistemic", epistemic]], limits.epistemic_threshold ?? gate.own.epistemic),
    ];
  }
  return [
    ...scale("Uncertainty", [["aleatoric", aleatoric], ["epistemic", epistemic]], limits.max_coe ?? (gate.isPlain ? gate.own.coe : null)),
    element("p", { class: "note keys" }, part("aleatoric", `doubt within agents ${number(aleatoric, 2)}`), part("epistemic", `disagreement between them ${number(epistemic, 2)}`)),
  ];
}

function scale(name, parts, limit) {
  const total = parts.reduce((sum, [, value]) => sum + value, 0);
  const far = Math.max(1.4 * total, 1.6 * (limit ?? 0.6));
  const at = (value) => `${((100 * value) / far).toFixed(2)}%`;
  const drawn = shape("svg", { class: "gauge", "aria-hidden": "true", width: "100%", height: "26" });
  drawn.append(shape("rect", { class: "ground", y: 9, width: "100%", height: 8, rx: 3 }));
  let from = 0;
  for (const [kind, value] of parts) {
    drawn.append(shape("rect", { class: kind, x: at(from), y: 9, width: at(value), height: 8 }));
    from += value;
  }
  if (limit !== null) drawn.append(shape("line", { class: "limit", x1: at(limit), x2: at(limit), y1: 1, y2: 25 }));
  const words = element("p", {}, element("b", {}, `${name} ${number(total, 2)}`), limit === null ? "" : `; the gate answers up to ${number(limit, 2)}`);
  return [words, drawn];
}

// What the group is doing now
function step(entry) {
  const agents = [...entry.agents.values()];
  const waiting = agents.filter((agent) => agent.state === "asked" || agent.state === "waiting").length;
  if (entry.ruled) return "Deciding…";
  if (entry.rounds.at(-1)?.action === "escalate") return "Asking somebody else…";
  if (entry.measured) return "Deciding…";
  const again = entry.round ? "again" : "";
  if (waiting === agents.length) return `Asking ${inWords(agents.length)} agents ${again}`.trim() + "…";
  if (waiting) return `${capital(inWords(agents.length - waiting))} of ${inWords(agents.length)} agents answered ${again}`.trim() + "…";
  return "Comparing what they mean…";
}

function unknownYet(entry) {
  const last = entry.rounds.at(-1);
  return last?.action === "another_round" ? [element("p", {}, `The gate asks another round, since the first ${last.round ? "rounds were" : "round was"} not clear enough.`)] : [];
}

function showAgents(entry) {
  const several = session.group.max_rounds > 1 || entry.round > 0;
  const former = entry.rounds.filter((each) => each.action === "another_round");
  byId("rounds").replaceChildren(
    ...former.map((each) => {
      const seen = each.sizes ? `${plural(each.sizes.length, "meaning")}, CoE ${number(each.coe, 2)}` : "nothing measured";
      return element("p", { class: "note round" }, element("b", {}, `Round ${each.round + 1}`), ` ${seen}: the gate asked another round.`);
    }),
    ...(several ? [element("p", { class: "round" }, element("b", {}, `Round ${entry.round + 1}`), ` of at most ${session.group.max_rounds}`)] : []),
  );
  const meanings = entry.decision ? meaningsOf(entry) : null;
  const list = byId("agent-list");
  const many = entry.agents.size > 6;
  list.classList.toggle("many", many);
  if (many) list.tabIndex = 0; // it scrolls
  const { scrollTop } = list;
  list.replaceChildren(...[...entry.agents.values()].map((agent) => agentItem(agent, entry, meanings)));
  list.scrollTop = scrollTop;
  byId("meanings").replaceChildren(...clustersSoFar(entry, meanings));
}

const SIGNS = { waiting: "○", stopped: "○", asked: "◌", answered: "●", failed: "✕" };

function agentItem(agent, entry, meanings) {
  const words = element("span", { class: "note" }, agentState(agent));
  const head = element("div", { class: "agent-head" }, element("span", { class: "sign", "aria-hidden": "true" }, SIGNS[agent.state]), element("b", {}, inline(agent.name, 80)), words);
  const item = element("li", { class: `agent ${agent.state}` }, head);
  if (agent.state === "failed") {
    item.append(element("p", { class: "trouble" }, inline(agent.error, 400)));
    return item;
  }
  const said = entry.decision && Object.hasOwn(entry.decision.agents ?? {}, agent.name) ? entry.decision.agents[agent.name] : null;
  const parts = said && meanings ? meanings.map((meaning) => ({ place: meaning.place, share: meaning.agents.find(({ name }) => name === agent.name)?.share ?? 0 })).filter(({ share }) => share > 0) : null;
  item.append(bar(parts ?? (agent.state === "answered" ? [{ place: null, share: 1 }] : []), agent.state === "answered" && said?.weighting !== "probability" ? agent.n : 0));
  if (parts) item.append(element("p", { class: "note shares" }, ...parts.slice(0, 5).map(({ place, share }) => element("span", { class: "share" }, chip(place), ` ${percent(share)}`)), parts.length > 5 ? `and ${parts.length - 5} more` : ""));
  return item;
}

function agentState(agent) {
  if (agent.state === "asked") {
    const seconds = Math.floor((performance.now() - agent.since) / 1000);
    const attempt = agent.attempts > 1 ? `asked again, attempt ${agent.attempts}` : "asked";
    return seconds ? `${attempt}, ${seconds} s` : attempt;
  }
  if (agent.state === "answered") return `${plural(agent.n, "answer")} in ${agent.seconds < 0.1 ? "under 0.1" : number(agent.seconds, agent.seconds < 10 ? 1 : 0)} s`;
  return { failed: "failed", stopped: "no answer yet" }[agent.state] ?? "waiting";
}

const chip = (place) => element("span", { class: `chip ${colour(place)}` }, letter(place));

// A bar divided among meanings; with few responses, each is a piece of its own
function bar(parts, n = 0) {
  const drawn = shape("svg", { class: "bar", "aria-hidden": "true", width: "100%", height: "10" });
  let from = 0;
  for (const { place, share } of parts) {
    drawn.append(shape("rect", { class: place === null ? "unsorted" : colour(place), x: `${100 * from}%`, width: `${100 * share}%`, height: "100%" }));
    from += share;
  }
  if (n > 1 && n <= 20) for (let i = 1; i < n; i++) drawn.append(shape("line", { class: "gap", x1: `${(100 * i) / n}%`, x2: `${(100 * i) / n}%`, y1: 0, y2: "100%" }));
  return drawn;
}

function clustersSoFar(entry, meanings) {
  if (!entry.sizes) return [];
  const total = entry.sizes.reduce((sum, size) => sum + size, 0);
  const parts = meanings ? meanings.map(({ place, share }) => ({ place, share })) : [...entry.sizes].sort((a, b) => b - a).map((size, place) => ({ place, share: size / total }));
  const words = `${plural(total, "answer")} in ${plural(parts.length, "meaning")}`;
  return [element("p", { class: "sum" }, element("b", {}, "Together"), element("span", { class: "note" }, words)), bar(parts)];
}

// ---------------------------------------------------------------------------------------- who said what

const FIRST = 6; // meanings shown at first

function showMeanings(entry) {
  const meanings = meaningsOf(entry);
  byId("clusters").replaceChildren(...meanings.slice(0, FIRST).map((meaning) => meaningItem(meaning, entry)));
  const more = byId("more");
  more.hidden = meanings.length <= FIRST;
  more.textContent = `Show all ${meanings.length} meanings`;
  more.onclick = () => {
    const rest = meanings.slice(FIRST).map((meaning) => meaningItem(meaning, entry));
    byId("clusters").append(...rest);
    more.hidden = true;
    rest[0].tabIndex = -1;
    rest[0].focus();
  };
  byId("said").hidden = meanings.length === 0;
  const agents = responsesByAgent(entry, meanings);
  byId("responses").hidden = agents.length === 0;
  byId("by-agent").replaceChildren(...agents);
}

function meaningItem(meaning, entry) {
  const given = entry.decision.action === "answer" && meaning.place === 0;
  const head = element("div", { class: "meaning-head" }, chip(meaning.place), element("h3", {}, passage(meaning.text)));
  const share = element("p", { class: "group-share" }, element("b", {}, percent(meaning.share)), given ? " of the group, and its answer" : " of the group");
  const agents = element("ul", { class: "shares-by-agent" }, ...meaning.agents.map(({ name, share: own }) => element("li", {}, element("span", {}, inline(name, 60)), bar([{ place: meaning.place, share: own }]), element("span", { class: "number" }, percent(own)))));
  const item = element("li", { class: `meaning ${colour(meaning.place)}` }, head, share, agents);
  const texts = tally(meaning.responses);
  if (texts.length > 1 || (texts.length && texts[0].text !== meaning.text)) item.append(element("details", {}, element("summary", {}, `${plural(meaning.responses.length, "response")}, ${plural(texts.length, "wording")}`), wordings(texts)));
  return item;
}

// The different texts of some responses, the most frequent first
function tally(responses) {
  const found = new Map();
  for (const { text, meaning } of responses) found.set(text, { text, meaning, n: (found.get(text)?.n ?? 0) + 1 });
  return [...found.values()].sort((a, b) => b.n - a.n);
}

function wordings(texts, places = null) {
  return element("ul", { class: "wordings" }, ...texts.slice(0, 50).map(({ text, meaning, n }) => element("li", {}, ...(places?.has(meaning) ? [chip(places.get(meaning))] : []), passage(text), ...(n > 1 ? [element("span", { class: "note" }, `${n} times`)] : []))));
}

function responsesByAgent(entry, meanings) {
  const places = new Map(meanings.map(({ text, place }) => [text, place]));
  const agents = Map.groupBy(entry.responses, (response) => response.agent);
  return [...agents].map(([name, responses]) => element("div", { class: "agent-said" }, element("h3", {}, inline(name, 80)), wordings(tally(responses), places)));
}

// -------------------------------------------------------------------------------------------- the numbers

function showNumbers({ decision, seconds, options }) {
  const unit = unitOf(decision);
  const { numeric } = sentences(decision);
  const tokens = Object.values(decision.tokens ?? {}).reduce((sum, usage) => sum + (usage.output_tokens ?? 0), 0);
  const rows = [
    ["The gate", numeric || "–"],
    ["CoE, the sum", decision.coe === null ? "not measured" : `${number(decision.coe)}${unit}${decision.interval ? `, 95 % interval ${number(decision.interval[0], 2)} to ${number(decision.interval[1], 2)}` : ""}`],
    ["aleatoric, doubt within agents", `${number(decision.aleatoric)}${decision.coe === null ? "" : " nats"}`],
    ["epistemic, disagreement", `${number(decision.epistemic)}${unit}${decision.divergence && decision.divergence !== "kl" ? ` (${short(decision.divergence)})` : ""}`],
    ["regime", decision.regime ? `${decision.regime}: ${REGIMES[decision.regime]?.[1] ?? ""}` : "–"],
    ["asked", `${plural(decision.n_rounds, "round")}, ${number(seconds, 2)} s${tokens ? `, ${plural(tokens, "output token")}` : ""}`],
  ];
  if (Object.keys(options).length) rows.push(["asked with", Object.entries(options).map(([name, value]) => `${name} ${value}`).join(", ")]);
  byId("figures").replaceChildren(...rows.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, inline(value, 600))]));
  const rounds = decision.trajectory ?? [];
  byId("trajectory").hidden = rounds.length < 2;
  byId("trajectory").querySelector("tbody").replaceChildren(
    ...rounds.map((each) => {
      const figures = ["coe", "aleatoric", "epistemic"].map((name) => element("td", { class: "number" }, number(each[name])));
      return element("tr", {}, element("th", { scope: "row" }, String(each.round + 1)), element("td", {}, short(each.strategy ?? "first request", 40)), element("td", {}, inline(each.answer ?? "–", 60)), ...figures);
    }),
  );
}

const unitOf = (decision) => (["kl", "js", null, undefined].includes(decision.divergence) ? " nats" : "");

// ------------------------------------------------------------------------------------------------ the gate

let gate = null;

// The gate's limits, and what it would do under others
class Gate {
  constructor(policy) {
    this.policy = policy;
    this.isRegime = policy.type === "RegimePolicy";
    this.isPlain = this.isRegime || typeof policy.max_coe === "number";
    this.lines = { aleatoric: policy.aleatoric_threshold ?? 0.5, epistemic: policy.epistemic_threshold ?? 0.3 };
    this.own = this.isRegime ? { ...this.lines } : { coe: policy.max_coe ?? 0.6 };
    this.limits = { ...this.own };
    this.sliders = new Map(Object.keys(this.own).map((part) => [part, this.slider(part)]));
    byId("sliders").replaceChildren(...[...this.sliders.values()].map(({ box }) => box));
    byId("reset").addEventListener("click", () => {
      this.set({ ...this.own });
      this.sliders.values().next().value.input.focus(); // the button is disabled now
    });
    byId("again").addEventListener("click", () => {
      ask(session.shown.question, this.options());
      byId("verdict-title").focus({ preventScroll: true });
    });
    this.plane = new Plane(byId("plane"), this);
    byId("gate-note").textContent = this.isPlain
      ? "Only this page changes; the server’s gate stays as it is. A stricter one can be asked for, a looser one cannot."
      : `This group’s gate is of another kind (${short(policy.type, 60)}). The slider shows what a plain threshold on CoE would do instead.`;
  }

  slider(part) {
    const words = { coe: "Answer where CoE is at most", aleatoric: "Doubt within agents, at most", epistemic: "Disagreement, at most" };
    const input = element("input", { type: "range", min: "0", step: "0.01", id: `limit-${part}` });
    const output = element("output", { for: input.id });
    input.addEventListener("input", () => this.set({ [part]: Number(input.value) }));
    return { input, output, box: element("div", { class: "slider" }, element("label", { for: input.id }, words[part]), input, output) };
  }

  set(limits) {
    Object.assign(this.limits, limits);
    this.update();
  }

  options() {
    return this.isRegime ? { aleatoric_threshold: this.limits.aleatoric, epistemic_threshold: this.limits.epistemic } : { max_coe: this.limits.coe };
  }

  isOwn() {
    return Object.keys(this.own).every((part) => Math.abs(this.limits[part] - this.own[part]) < 1e-9);
  }

  isStricter() {
    return !this.isOwn() && Object.keys(this.own).every((part) => this.limits[part] <= this.own[part] + 1e-9);
  }

  // Why no threshold makes the gate answer; "" where one does
  never(decision) {
    if (decision.coe === null) return "nothing could be measured";
    if (decision.regime === null) return "too few agents answered";
    if (decision.tied?.length) return "the leading answers tie";
    const reason = unquoted(decision.reason);
    if (decision.answer_kind === "refusal" || /a refusal is not an answer/.test(reason)) return "the leading answer declines to answer";
    if (decision.answer_kind === "empty" || /an empty response is not an answer/.test(reason)) return "the leading answer is empty";
    return "";
  }

  answers(decision) {
    if (this.never(decision)) return false;
    const values = comparable(decision);
    return Object.keys(this.own).every((part) => values[part] <= this.limits[part] + 1e-9);
  }

  update() {
    const decided = session.entries.filter((entry) => entry.decision);
    const measured = decided.filter(({ decision }) => decision.coe !== null);
    byId("gate").hidden = decided.length === 0;
    if (!decided.length) return;
    const most = (part) => measured.reduce((top, { decision }) => Math.max(top, comparable(decision)[part]), 0);
    for (const [part, { input, output }] of this.sliders) {
      const far = Math.ceil(10 * Math.max(2 * this.own[part], 1.15 * most(part), this.limits[part])) / 10;
      input.max = String(far);
      input.value = String(this.limits[part]);
      const text = `${number(this.limits[part], 2)} nats`;
      output.textContent = text;
      input.setAttribute("aria-valuetext", text);
    }
    this.plane.draw(measured);
    this.explain(decided);
  }

  where() {
    const { limits } = this;
    return this.isRegime ? `At ${number(limits.aleatoric, 2)} and ${number(limits.epistemic, 2)} nats` : `At ${number(limits.coe, 2)} nats`;
  }

  explain(decided) {
    const { decision } = session.shown ?? {};
    const shown = byId("would");
    shown.hidden = !decision;
    if (decision) {
      const never = this.never(decision);
      const yes = this.answers(decision);
      const leading = decision.answer ?? meaningsOf(session.shown)[0]?.text;
      const verb = this.isOwn() ? "" : "would ";
      const s = this.isOwn() ? "s" : "";
      shown.dataset.kind = yes ? "answer" : "abstain";
      if (never) shown.replaceChildren(element("b", {}, "No threshold makes the gate answer this question: "), `${never}.`);
      else if (yes) shown.replaceChildren(`${this.where()} the gate `, element("b", {}, `${verb}answer${s}`), " this question with ", element("bdi", { class: "said" }, quoted(leading ?? "")), `: ${this.compare(decision)}.`);
      else shown.replaceChildren(`${this.where()} the gate `, element("b", {}, `${verb}withhold${s}`), ` the answer: ${this.compare(decision)}.`);
    }
    byId("reset").disabled = this.isOwn();
    byId("reset").textContent = this.isPlain ? `Back to ${listed(Object.values(this.own).map((value) => number(value, 2)))}` : "Back";
    byId("again").disabled = !decision || !this.isStricter() || session.running !== null;
    const did = decided.filter(({ decision: each }) => each.action === "answer").length;
    const would = decided.filter(({ decision: each }) => this.answers(each)).length;
    byId("counts").textContent = `The gate answered ${did} of ${plural(decided.length, "question")}. ${this.where()} it ${this.isOwn() && this.isPlain ? "answers" : "would answer"} ${would}.`;
    const rows = byId("session").tBodies[0];
    const had = rows.contains(document.activeElement);
    rows.replaceChildren(...[...session.entries].reverse().map((entry) => this.row(entry)));
    if (had) rows.querySelector("[aria-current]")?.focus();
  }

  compare(decision) {
    const parts = Object.keys(this.own).map((part) => {
      const value = comparable(decision)[part];
      const name = { coe: "CoE", aleatoric: "doubt", epistemic: "disagreement" }[part];
      return `${name} ${number(value)} ${value <= this.limits[part] + 1e-9 ? "is at most" : "exceeds"} ${number(this.limits[part], 2)}`;
    });
    return listed(parts);
  }

  row(entry) {
    const { decision } = entry;
    const button = element("button", { type: "button", class: "open" }, inline(entry.question, 90));
    if (entry === session.shown) button.setAttribute("aria-current", "true");
    button.addEventListener("click", () => {
      show(entry);
      bringIntoView();
    });
    const head = element("th", { scope: "row" }, button);
    if (!decision) return element("tr", {}, head, element("td", { class: "number wide" }, "–"), element("td", {}, entry.error ? "no result" : "is asked"), element("td", {}, "–"));
    const did = decision.action === "answer";
    const would = this.answers(decision);
    const mark = (yes, text) => element("span", { class: yes ? "given-mark" : "withheld-mark" }, `${yes ? "●" : "✕"} ${text}`);
    const did_ = mark(did, did ? "answered" : decision.action === "escalate" ? "escalated" : "withheld");
    const would_ = mark(would, would ? "answers" : "withholds");
    if (did !== would) would_.classList.add("changed");
    return element("tr", {}, head, element("td", { class: "number wide" }, number(comparable(decision).coe, 2)), element("td", {}, did_), element("td", {}, would_));
  }
}

// The plane of aleatoric and epistemic uncertainty with the questions of this session
class Plane {
  constructor(svg, owner) {
    Object.assign(this, { svg, owner, left: 56, right: 470, top: 12, bottom: 330, far: { aleatoric: 1, epistemic: 1 } });
    svg.setAttribute("viewBox", "0 0 480 376");
    svg.addEventListener("pointerdown", (event) => {
      if (!event.target.closest(".grip")) return;
      svg.setPointerCapture(event.pointerId);
      this.held = event.target.dataset.part;
    });
    svg.addEventListener("pointermove", (event) => {
      if (svg.hasPointerCapture(event.pointerId)) this.drag(event);
    });
  }

  x(value) {
    return this.left + (value / this.far.aleatoric) * (this.right - this.left);
  }

  y(value) {
    return this.bottom - (value / this.far.epistemic) * (this.bottom - this.top);
  }

  drag(event) {
    const box = this.svg.getBoundingClientRect();
    const scale = 480 / box.width;
    const least = (value) => Math.max(0, Math.round(value * 100) / 100);
    const aleatoric = least((((event.clientX - box.left) * scale - this.left) / (this.right - this.left)) * this.far.aleatoric);
    const epistemic = least(((this.bottom - (event.clientY - box.top) * scale) / (this.bottom - this.top)) * this.far.epistemic);
    const value = { aleatoric, epistemic, coe: least(aleatoric + epistemic) }[this.held];
    const most = Number(this.owner.sliders.get(this.held).input.max);
    this.owner.set({ [this.held]: Math.min(most, value) });
  }

  add(name, attributes, text) {
    const made = shape(name, attributes, text);
    this.svg.append(made);
    return made;
  }

  draw(entries) {
    const { lines, own } = this.owner;
    const most = (part) => entries.reduce((top, { decision }) => Math.max(top, 1.35 * comparable(decision)[part]), 0);
    for (const part of ["aleatoric", "epistemic"]) this.far[part] = Math.ceil(10 * Math.max(most(part), 2 * lines[part], Math.min(4 * lines[part], 1.25 * (own.coe ?? 0)))) / 10;
    this.svg.replaceChildren();
    this.area();
    this.axes();
    this.quadrants();
    this.cuts();
    const shown = session.shown;
    for (const entry of entries) if (entry !== shown) this.mark(entry, false);
    if (shown?.decision && shown.decision.coe !== null) this.mark(shown, true);
    byId("plane-words").textContent = this.words(shown?.decision);
  }

  axes() {
    const tick = (text, attributes) => this.add("text", { class: "tick", ...attributes }, text);
    for (const value of ticks(this.far.aleatoric)) {
      this.add("line", { class: "axis", x1: this.x(value), x2: this.x(value), y1: this.bottom, y2: this.bottom + 5 });
      tick(plain(value), { x: this.x(value), y: this.bottom + 19, "text-anchor": "middle" });
    }
    for (const value of ticks(this.far.epistemic)) {
      this.add("line", { class: "axis", x1: this.left - 5, x2: this.left, y1: this.y(value), y2: this.y(value) });
      tick(plain(value), { x: this.left - 9, y: this.y(value) + 4, "text-anchor": "end" });
    }
    this.add("rect", { class: "frame", x: this.left, y: this.top, width: this.right - this.left, height: this.bottom - this.top });
    tick("doubt within agents (aleatoric) →", { x: (this.left + this.right) / 2, y: this.bottom + 39, "text-anchor": "middle" });
    tick("disagreement between them (epistemic) →", { transform: `rotate(-90) translate(${-(this.top + this.bottom) / 2} 14)`, "text-anchor": "middle" });
  }

  // The plane is divided where the regimes are
  quadrants() {
    const [x, y] = [this.x(this.owner.lines.aleatoric), this.y(this.owner.lines.epistemic)];
    this.add("line", { class: "divide", x1: x, x2: x, y1: this.top, y2: this.bottom });
    this.add("line", { class: "divide", x1: this.left, x2: this.right, y1: y, y2: y });
    Object.entries(REGIMES).forEach(([name, [words]], place) => {
      const [right, high] = [place > 1, place % 2];
      const width = right ? this.right - x : x - this.left;
      const height = high ? y - this.top : this.bottom - y;
      if (width < 90 || height < 24) return;
      const at = { x: right ? this.right - 9 : this.left + 9, "text-anchor": right ? "end" : "start" };
      const top = (high ? this.top : y) + 19;
      this.add("text", { class: "quadrant", ...at, y: top }, name);
      if (width > 150 && height > 42) this.add("text", { class: "tick halo", ...at, y: top + 16 }, words);
    });
  }

  // Where the gate answers
  area() {
    const { limits, isRegime } = this.owner;
    const [x0, y0] = [this.x(0), this.y(0)];
    if (isRegime) {
      const [x, y] = [Math.min(this.right, this.x(limits.aleatoric)), Math.max(this.top, this.y(limits.epistemic))];
      this.add("rect", { class: "open-area", x: x0, y, width: x - x0, height: y0 - y });
      return;
    }
    const t = limits.coe;
    const { aleatoric: a, epistemic: e } = this.far;
    const corners = [[0, 0], [0, Math.min(t, e)], [Math.min(a, Math.max(0, t - e)), Math.min(t, e)], [Math.min(t, a), Math.min(e, Math.max(0, t - a))], [Math.min(t, a), 0]];
    this.add("path", { class: "open-area", d: `M${corners.map(([p, q]) => `${this.x(p).toFixed(1)} ${this.y(q).toFixed(1)}`).join("L")}Z` });
  }

  cuts() {
    const { limits, isRegime } = this.owner;
    const { aleatoric: a, epistemic: e } = this.far;
    const line = (part, from, to) => {
      const places = { x1: this.x(from[0]), y1: this.y(from[1]), x2: this.x(to[0]), y2: this.y(to[1]) };
      this.add("line", { class: "cut", ...places });
      this.add("line", { class: `grip ${part}`, "data-part": part, ...places });
    };
    if (isRegime) {
      line("aleatoric", [Math.min(a, limits.aleatoric), 0], [Math.min(a, limits.aleatoric), e]);
      line("epistemic", [0, Math.min(e, limits.epistemic)], [a, Math.min(e, limits.epistemic)]);
    } else if (limits.coe < a + e) {
      const t = limits.coe;
      line("coe", [Math.max(0, t - e), Math.min(t, e)], [Math.min(t, a), Math.max(0, t - a)]);
    }
  }

  mark(entry, isShown) {
    const { decision } = entry;
    const values = comparable(decision);
    const [x, y] = [this.x(values.aleatoric), this.y(values.epistemic)];
    const factor = decision.epistemic ? values.epistemic / decision.epistemic : 1;
    const given = decision.action === "answer";
    if (isShown) {
      const path = (decision.trajectory ?? []).filter((each) => each.coe !== null).map((each) => `${this.x(Math.min(each.aleatoric, this.far.aleatoric)).toFixed(1)} ${this.y(Math.min(factor * each.epistemic, this.far.epistemic)).toFixed(1)}`);
      if (path.length > 1) {
        this.add("path", { class: "path", d: `M${path.join("L")}` });
        for (const place of path.slice(0, -1)) this.add("path", { class: "former", d: `M${place}h0` });
      }
      this.add("circle", { class: "ring", cx: x, cy: y, r: 14 });
    }
    const r = isShown ? 7 : 5;
    if (given) this.add("circle", { class: "given", cx: x, cy: y, r });
    else this.add("path", { class: "withheld", d: `M${x - r} ${y - r}l${2 * r} ${2 * r}m0 ${-2 * r}l${-2 * r} ${2 * r}` });
    if (isShown) {
      const right = x > (this.left + this.right) / 2;
      this.add("text", { class: "here", x: x + (right ? -20 : 20), y: y > this.bottom - 40 ? y - 12 : y + 5, "text-anchor": right ? "end" : "start" }, "this question");
    }
  }

  words(decision) {
    if (!decision) return "";
    if (decision.coe === null) return "This question is not on the plane: nothing could be measured.";
    const where = decision.regime ? `: ${decision.regime}, ${REGIMES[decision.regime]?.[1] ?? ""}` : "";
    const { aleatoric, epistemic } = comparable(decision);
    const rescaled = epistemic === decision.epistemic ? "" : ", on the scale of KL";
    return `This question: doubt within the agents ${number(aleatoric, 2)}, disagreement between them ${number(epistemic, 2)}${rescaled}${where}.`;
  }
}

const plain = (value) => String(Math.round(value * 1000) / 1000);

function ticks(most) {
  const step = [0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5].find((size) => most / size <= 6) ?? 10;
  return Array.from({ length: Math.floor(most / step + 1e-9) + 1 }, (_, i) => i * step);
}

// --------------------------------------------------------------------------------------------------- start

function describeGroup(group) {
  const limit = typeof group.policy.max_coe === "number" ? " only if their uncertainty is low enough" : " only if the gate lets it pass";
  const names = group.agents.length > 6 ? [`${group.agents.length} agents`] : group.agents.map((name) => short(name, 60));
  return `${listed(names)} answer each question. You get their answer${limit}.`;
}

async function start() {
  const reply = await fetch(`${location.origin}/group`);
  if (!reply.ok) throw await refusal(reply);
  const group = await reply.json();
  session.group = group;
  gate = new Gate(group.policy ?? {});
  byId("about").replaceChildren(element("bdi", { class: "said" }, describeGroup(group)));
  byId("toy").hidden = !group.is_toy;
  const examples = group.examples ?? [];
  byId("examples").hidden = examples.length === 0;
  byId("examples").append(
    ...examples.slice(0, 8).map((text) => {
      const button = element("button", { type: "button" }, inline(text, 90));
      button.addEventListener("click", () => {
        byId("question").value = text;
        ask(text);
      });
      return button;
    }),
  );
}

const theme = byId("theme");
theme.hidden = false;
theme.addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.style.colorScheme ? root.style.colorScheme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.style.colorScheme = dark ? "light" : "dark";
});

byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  const question = byId("question").value.trim();
  if (!session.group) return;
  if (question) ask(question);
  else {
    announce("Write a question first");
    byId("question").focus();
  }
});
byId("question").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  byId("form").requestSubmit();
});
byId("stop").addEventListener("click", () => {
  session.running?.abort();
  byId("question").focus();
});
setInterval(() => {
  if (session.running && session.shown && !session.shown.decision) showAgents(session.shown);
}, 1000);

start()
  .catch((error) => {
    const { title, text } = described(error, false);
    const notice = byId("toy");
    notice.hidden = false;
    notice.textContent = `${title}. ${text}`;
    byId("ask").disabled = true;
  })
  .finally(() => (document.documentElement.dataset.ready = "true"));
