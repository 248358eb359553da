// The page: a question is asked, its events are shown as they are received, and at last its decision

import { answerOf, copyButton, isPlain } from "./answer.js";
import { claimList, connect, hasClaims, spansOf } from "./claims.js";
import { programsFor } from "./code.js";
import { cause, meaningsOf, REGIMES, sentences } from "./decision.js";
import { Gate } from "./gate.js";
import { load, save } from "./history.js";
import { byId, element, offerTheme, plural, shape } from "./parts.js";
import { readEvents, readGroup, Refused } from "./requests.js";
import { capital, cut, inline, inWords, line, listed, number, passage, percent, short, visible } from "./text.js";

const session = { group: null, gate: null, entries: [], shown: null, running: null };
const MOST = 200; // questions that a session keeps

// ---------------------------------------------------------------------------------- what is known of a question

// `before` holds the turns that the question follows up, as messages
function createEntry(question, options, before = []) {
  const agents = new Map(session.group.agents.map((name) => [name, { name, state: "waiting", attempts: 0 }]));
  const known = { round: 0, rounds: [], sizes: null, measured: null, ruled: null, decision: null, error: null };
  return { question, options, before, agents, began: Date.now(), ...known };
}

// The conversation up to a question: what a follow-up of it is asked after, if it was answered
function conversation({ question, before, decision }) {
  const answer = decision?.action === "answer" ? [{ role: "assistant", content: decision.answer }] : [];
  return [...before, { role: "user", content: question }, ...answer];
}

// What each event of the graph adds; see `coe_agents.graph.events`
const HANDLERS = {
  agent_asked(entry, { agent: name, round }) {
    if (round > entry.round) startRound(entry, round);
    const agent = agentOf(entry, name);
    Object.assign(agent, { state: "asked", attempts: agent.attempts + 1, since: performance.now() });
  },
  agent_sampled(entry, { agent: name, error, n_responses: n, seconds }) {
    Object.assign(agentOf(entry, name), { state: error === null ? "answered" : "failed", error, n, seconds });
    announce(`${short(name)} ${error === null ? "answered" : "failed"}`);
  },
  clustered(entry, { sizes }) {
    entry.sizes = sizes;
    announce(describeSizes(sizes));
  },
  measured(entry, event) {
    entry.measured = event;
  },
  decided(entry, { round, action }) {
    entry.rounds.push({ round, action, sizes: entry.sizes, coe: entry.measured?.coe });
    if (action === "another_round") announce("The gate asks another round");
  },
  ruled(entry, event) {
    entry.ruled = event;
  },
  decision(entry, event) {
    entry.decision = event;
  },
  error(entry, { message }) {
    entry.error = { title: "The group could not be asked", text: message };
  },
};

function startRound(entry, round) {
  Object.assign(entry, { round, measured: null });
  for (const agent of entry.agents.values()) Object.assign(agent, { state: "waiting", attempts: 0, error: null });
}

function agentOf(entry, name) {
  if (!entry.agents.has(name)) entry.agents.set(name, { name, state: "waiting", attempts: 0 });
  return entry.agents.get(name);
}

async function ask(question, options = {}, before = []) {
  session.running?.abort();
  const control = new AbortController();
  const entry = createEntry(question, options, before);
  const end = () => {
    if (session.running === control) session.running = null;
    for (const agent of entry.agents.values()) if (agent.state === "asked") agent.state = "stopped";
    if (entry === session.shown) render(entry);
    save(session.group.model, session.entries);
  };
  session.running = control;
  session.entries = [...session.entries, entry].slice(-MOST);
  show(entry);
  try {
    for await (const [type, event] of readEvents({ question, coe: options, messages: before }, control.signal)) {
      if (Object.hasOwn(HANDLERS, type)) HANDLERS[type](entry, event);
      if (entry.decision) end(); // the connection may stay open a little longer
      else if (entry === session.shown) render(entry);
    }
    if (!entry.decision && !entry.error) {
      throw new Refused("The connection ended before the decision", "The server may have stopped. Ask again.");
    }
  } catch (error) {
    entry.error = describeError(error, control.signal.aborted);
  } finally {
    if (!entry.decision) end(); // rendered anew, what a reader has unfolded since would close
  }
}

function describeError(error, isStopped) {
  if (isStopped) return { title: "Stopped", text: "You stopped this question before the decision." };
  if (error instanceof Refused) return { title: error.title, text: error.message };
  console.error(error);
  return { title: "The reply cannot be shown", text: error.message };
}

// --------------------------------------------------------------------------------------------- what is shown

function show(entry) {
  session.shown = entry;
  byId("result").hidden = false;
  byId("intro").hidden = true;
  render(entry);
  const { top } = byId("verdict").getBoundingClientRect();
  if (top >= 0 && top < 0.6 * innerHeight) return;
  const behavior = matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth";
  byId("verdict").scrollIntoView({ block: "start", behavior });
}

function announce(text) {
  byId("state").textContent = text;
}

function render(entry) {
  const { decision, error, agents } = entry;
  const isAsking = session.running !== null;
  byId("result").setAttribute("aria-busy", String(!decision && !error));
  byId("stop").hidden = !isAsking;
  byId("agents").hidden = error !== null && [...agents.values()].every(({ state }) => state === "waiting");
  showVerdict(entry);
  showAgents(entry);
  for (const id of ["said", "numbers"]) byId(id).hidden = !decision;
  byId("follow").hidden = isAsking || decision?.action !== "answer";
  byId("follows").checked = false;
  if (decision) {
    showMeanings(decision);
    showNumbers(entry);
  }
  session.gate.show(session.entries, entry, isAsking);
}

const TAGS = {
  answer: "Answer",
  abstain: "No answer",
  escalate: "Escalated",
  failed: "No result",
  running: "In progress",
};

function showVerdict(entry) {
  const { decision, error, question } = entry;
  const kind = decision?.action ?? (error ? "failed" : "running");
  const texts = { running: describeRun, failed: () => [error.title, [passage(error.text)]] }[kind] ?? describeDecision;
  const [headline, notes] = texts(entry);
  byId("asked").textContent = cut(visible(question), 600);
  const { before, began } = entry;
  byId("verdict").dataset.kind = kind;
  if (before.length) byId("asked").append(element("span", "note", ` (a follow-up of “${short(before[0].content, 80)}”)`));
  byId("elapsed").textContent = elapsed(kind, decision?.seconds ?? (Date.now() - began) / 1000);
  showAnswer(entry, kind === "answer");
  byId("tag").textContent = TAGS[kind];
  byId("verdict-title").replaceChildren(headline);
  byId("verdict-title").classList.toggle("long", kind === "answer" && visible(decision.answer).length > 120);
  byId("verdict-title").classList.toggle("visually-hidden", kind === "answer" && isLong(decision));
  byId("why").replaceChildren(...notes);
  byId("gauge").replaceChildren(...(decision ? gauge(decision) : []));
  if (kind === "answer") announce(`Answer: ${short(decision.answer)}`);
  else if (kind !== "running") announce(`${TAGS[kind]}. ${headline}.`);
}

const isLong = (decision) => hasClaims(decision) || !isPlain(decision.answer);

// How long a question takes, or took
function elapsed(kind, seconds) {
  if (kind === "running") return seconds < 1 ? "" : `${Math.floor(seconds)} s`;
  return kind === "failed" ? "" : `in ${seconds < 0.1 ? "under 0.1" : number(seconds, seconds < 10 ? 1 : 0)} s`;
}

// The answer where it is more than a line, and what can be done with it. All answers that are Markdown are made here.
function showAnswer({ decision, question, before, options }, isAnswer) {
  const isRich = isAnswer && isLong(decision);
  const copy = isAnswer ? copyButton(() => decision.answer, "Copy the answer") : null;
  const isJudged = hasClaims(decision);
  byId("answer").replaceChildren(...(isRich ? [answerOf(decision.answer, isJudged ? spansOf(decision) : [])] : []));
  byId("claims").replaceChildren(...(isJudged ? claimList(decision) : []));
  if (isJudged) connect(byId("answer"), byId("claims"), decision);
  byId("tools").replaceChildren(...(copy ? [copy] : []));
  byId("tools").hidden = copy === null;
  byId("code").hidden = !decision;
  const messages = [...before, { role: "user", content: question }];
  byId("programs").replaceChildren(...(decision ? programsFor(session.group.model, messages, options) : []));
}

// What the group is doing
function describeRun(entry) {
  const agents = [...entry.agents.values()];
  const n = agents.filter(({ state }) => state === "answered" || state === "failed").length;
  const again = entry.round ? " again" : "";
  const last = entry.rounds.at(-1);
  const words = "The gate asks another round: what they said so far is not clear enough.";
  const notes = entry.round ? [element("p", {}, words)] : [];
  if (last?.action === "escalate") return [entry.ruled ? "Deciding…" : "Asking somebody else…", notes];
  if (entry.measured) return ["Deciding…", notes];
  if (n === agents.length) return ["Comparing what they mean…", notes];
  if (!n) return [`Asking ${inWords(agents.length)} ${agents.length === 1 ? "agent" : "agents"}${again}…`, notes];
  return [`${capital(inWords(n))} of ${inWords(agents.length)} agents answered${again}…`, notes];
}

function describeDecision({ decision }) {
  const { action, answer, decided_by: by, n_rounds: n, failed_agents: failed } = decision;
  const { plain } = sentences(decision);
  const notes = [
    plain && element("p", {}, inline(plain, 1200)),
    by !== "group" && element("p", {}, "Decided by ", inline(by), ", after the group escalated."),
    n > 1 && element("p", {}, `Decided after ${inWords(n)} rounds.`),
    ...Object.entries(failed).map(([name, reason]) => {
      return element("p", "trouble", inline(name), " did not answer: ", inline(reason, 400));
    }),
  ];
  const headline = { answer: () => (isLong(decision) ? "The group’s answer" : passage(answer)), escalate: () => "Somebody else must decide" }[action];
  return [headline ? headline() : cause(decision), notes.filter(Boolean)];
}

// What the gate compares, on a line with its threshold
function gauge(decision) {
  // too few agents look certain, and claims are compared, not whole texts
  if (decision.regime === null || hasClaims(decision)) return [];
  const { aleatoric, epistemic } = decision;
  const { max_coe: limit, aleatoric_threshold: doubt, epistemic_threshold: disagreement } = decision.thresholds;
  if (session.gate.isRegime) {
    return [
      ...scale("Doubt within agents", [["aleatoric", aleatoric]], doubt),
      ...scale("Disagreement between them", [["epistemic", epistemic]], disagreement),
    ];
  }
  const key = (kind, words) => element("span", "key", element("span", `swatch ${kind}`), words);
  return [
    ...scale("Uncertainty", [["aleatoric", aleatoric], ["epistemic", epistemic]], limit),
    element(
      "p",
      "note keys",
      key("aleatoric", `doubt within agents ${number(aleatoric, 2)}`),
      key("epistemic", `disagreement between them ${number(epistemic, 2)}`),
    ),
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
  const words = [element("b", {}, `${name} ${number(total, 2)}`)];
  if (limit !== null) {
    drawn.append(shape("line", { class: "limit", x1: at(limit), x2: at(limit), y1: 1, y2: 25 }));
    words.push(`; the gate answers up to ${number(limit, 2)}`);
  }
  return [element("p", {}, words), drawn];
}

// ------------------------------------------------------------------------------------------------ the agents

const SIGNS = { waiting: "○", stopped: "○", asked: "◌", answered: "●", failed: "✕" };
const MANY = 6; // with more agents, their list scrolls

function showAgents(entry) {
  const { decision, agents, sizes } = entry;
  const meanings = decision && meaningsOf(decision);
  const list = byId("agent-list");
  const { scrollTop } = list;
  if (agents.size > MANY) Object.assign(list, { className: "many", tabIndex: 0 });
  list.replaceChildren(...[...agents.values()].map((agent) => agentItem(agent, decision, meanings)));
  list.scrollTop = scrollTop;
  byId("rounds").replaceChildren(...describeRounds(entry));
  byId("meanings").replaceChildren(...(sizes ? together(sizes, meanings) : []));
}

function describeRounds({ round, rounds }) {
  const most = session.group.max_rounds;
  if (most < 2) return [];
  const former = rounds.filter(({ action }) => action === "another_round");
  return [
    ...former.map(({ round: place, sizes, coe }) => {
      const seen = sizes ? `${plural(sizes.length, "meaning")}, CoE ${number(coe, 2)}` : "nothing measured";
      return element("p", "note round", element("b", {}, `Round ${place + 1}`), ` ${seen}: the gate asked another round.`);
    }),
    element("p", "round", element("b", {}, `Round ${round + 1}`), ` of at most ${most}`),
  ];
}

function agentItem(agent, decision, meanings) {
  const sign = element("span", { class: "sign", "aria-hidden": "true" }, SIGNS[agent.state]);
  const words = element("span", "note", describeAgent(agent));
  const head = element("div", "agent-head", sign, element("b", {}, inline(agent.name, 80)), words);
  const item = element("li", `agent ${agent.state}`, head);
  if (agent.state === "failed") {
    item.append(element("p", "trouble", inline(agent.error, 400)));
    return item;
  }
  const own = meanings?.flatMap(({ place, agents }) => {
    return agents.filter(({ name }) => name === agent.name).map(({ share }) => ({ place, share }));
  });
  if (!own?.length) {
    const isIn = agent.state === "answered";
    item.append(bar(isIn ? [{ place: null, share: 1 }] : [], isIn ? agent.n : 0));
    return item;
  }
  const isCounted = decision.agents[agent.name].weighting === "frequency" && decision.n_rounds === 1;
  const shares = own.slice(0, 5).map(({ place, share }) => element("span", "share", chip(place), ` ${percent(share)}`));
  const rest = own.length > 5 ? `and ${own.length - 5} more` : null;
  item.append(bar(own, isCounted ? agent.n : 0), element("p", "note shares", shares, rest));
  return item;
}

function describeAgent({ state, attempts, since, n, seconds }) {
  if (state === "answered") {
    const time = seconds < 0.1 ? "under 0.1" : number(seconds, seconds < 10 ? 1 : 0);
    return `${plural(n, "answer")} in ${time} s`;
  }
  if (state !== "asked") return state === "stopped" ? "no answer yet" : state;
  const waited = Math.floor((performance.now() - since) / 1000);
  const words = attempts > 1 ? `asked again, attempt ${attempts}` : "asked";
  return waited ? `${words}, ${waited} s` : words;
}

const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const COLOURS = 6; // further meanings share one

const colour = (place) => `meaning-${Math.min(place, COLOURS)}`;
const chip = (place) => element("span", `chip ${colour(place)}`, LETTERS[place] ?? String(place + 1));

// A bar divided among meanings; with few responses, each is a piece of its own
function bar(parts, n = 0) {
  const drawn = shape("svg", { class: "bar", "aria-hidden": "true", width: "100%", height: "10" });
  let from = 0;
  for (const { place, share } of parts) {
    const kind = place === null ? "unsorted" : colour(place);
    drawn.append(shape("rect", { class: kind, x: `${100 * from}%`, width: `${100 * share}%`, height: "100%" }));
    from += share;
  }
  for (let i = 1; n <= 20 && i < n; i++) {
    const x = `${(100 * i) / n}%`;
    drawn.append(shape("line", { class: "gap", x1: x, x2: x, y1: 0, y2: "100%" }));
  }
  return drawn;
}

const sum = (sizes) => sizes.reduce((total, size) => total + size, 0);
const describeSizes = (sizes) => `${plural(sum(sizes), "answer")} in ${plural(sizes.length, "meaning")}`;

// All responses, by meaning: at first only how many there are of each
function together(sizes, meanings) {
  const shares = meanings?.map(({ share }) => share) ?? sizes.toSorted((a, b) => b - a).map((size) => size / sum(sizes));
  const words = [element("b", {}, "Together"), element("span", "note", describeSizes(sizes))];
  return [element("p", "sum", words), bar(shares.map((share, place) => ({ place, share })))];
}

// --------------------------------------------------------------------------------------------- who said what

const FIRST = { meanings: 6, agents: 8, texts: 50 }; // how many are shown at first, or at all

function showMeanings(decision) {
  const meanings = meaningsOf(decision);
  const items = meanings.map((meaning) => meaningItem(meaning, decision.action === "answer" && meaning.place === 0));
  const more = byId("more");
  byId("said").hidden = meanings.length === 0;
  byId("clusters").replaceChildren(...items.slice(0, FIRST.meanings));
  more.hidden = items.length <= FIRST.meanings;
  more.textContent = `Show all ${items.length} meanings`;
  more.onclick = () => {
    const [next, ...rest] = items.slice(FIRST.meanings);
    byId("clusters").append(next, ...rest);
    more.hidden = true;
    next.tabIndex = -1;
    next.focus();
  };
  const places = new Map(meanings.map(({ text, place }) => [text, place]));
  const byAgent = Map.groupBy(meanings.flatMap(({ responses }) => responses), ({ agent }) => agent);
  byId("responses").hidden = byAgent.size === 0;
  byId("by-agent").replaceChildren(
    ...[...byAgent].map(([name, responses]) => {
      return element("div", "agent-said", element("h3", {}, inline(name, 80)), wordings(tally(responses), places));
    }),
  );
}

function meaningItem({ text, place, share, agents, responses }, isAnswer) {
  const rows = agents.slice(0, FIRST.agents).map(({ name, share: own }) => {
    const number = element("span", "number", percent(own));
    return element("li", {}, element("span", {}, inline(name, 60)), bar([{ place, share: own }]), number);
  });
  const rest = agents.length - FIRST.agents;
  const texts = tally(responses);
  const words = `${plural(responses.length, "response")}, ${plural(texts.length, "wording")}`;
  const isPlain = texts.length === 0 || (texts.length === 1 && texts[0].text === text);
  return element(
    "li",
    `meaning ${colour(place)}`,
    element("div", "meaning-head", chip(place), element("h3", {}, passage(text))),
    element("p", "group-share", element("b", {}, percent(share)), ` of the group${isAnswer ? ", and its answer" : ""}`),
    element("ul", "shares-by-agent", rows),
    rest > 0 ? element("p", "note", `and ${plural(rest, "more agent")}`) : null,
    isPlain ? null : element("details", {}, element("summary", {}, words), wordings(texts)),
  );
}

// The different texts of some responses, the most frequent first
function tally(responses) {
  const found = Map.groupBy(responses, ({ text }) => text);
  const texts = [...found].map(([text, same]) => ({ text, meaning: same[0].meaning, n: same.length }));
  return texts.sort((a, b) => b.n - a.n);
}

function wordings(texts, places = new Map()) {
  const items = texts.slice(0, FIRST.texts).map(({ text, meaning, n }) => {
    const place = places.get(meaning);
    const times = n > 1 ? element("span", "note", `${n} times`) : null;
    return element("li", {}, place === undefined ? null : chip(place), passage(text), times);
  });
  return element("ul", "wordings", items);
}

// ----------------------------------------------------------------------------------------------- the numbers

function showNumbers({ decision, options }) {
  const { coe, aleatoric, epistemic, regime, n_rounds: n, seconds, trajectory } = decision;
  const counts = Object.values(decision.tokens).map((usage) => usage.output_tokens);
  const tokens = counts.includes(null) ? 0 : sum(counts); // not known
  const asked = Object.entries(options).map(([name, value]) => `${name} ${value}`);
  const measured = [
    ["CoE, the sum", `${number(coe)} nats`],
    ["aleatoric, doubt within agents", `${number(aleatoric)} nats`],
    ["epistemic, disagreement", `${number(epistemic)} nats`],
    ["regime", regime ? `${regime}: ${REGIMES[regime][1]}` : "none, since too few agents answered"],
  ];
  const rows = [
    ["the gate", sentences(decision).numeric || "compared no numbers"],
    ...(coe === null ? [["CoE", "not measured"]] : measured),
    ["asked", `${plural(n, "round")}, ${number(seconds, 2)} s${tokens ? `, ${plural(tokens, "output token")}` : ""}`],
    ...(asked.length ? [["with", asked.join(", ")]] : []),
  ];
  byId("figures").replaceChildren(
    ...rows.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, inline(value, 600))]),
  );
  byId("trajectory").hidden = trajectory.length < 2;
  byId("trajectory").querySelector("tbody").replaceChildren(...trajectory.map(roundRow));
}

function roundRow({ round, strategy, answer, ...figures }) {
  const numbers = ["coe", "aleatoric", "epistemic"].map((name) => element("td", "number", number(figures[name])));
  const head = element("th", { scope: "row" }, String(round + 1));
  const how = element("td", "wide", short(strategy ?? "first request", 40));
  return element("tr", {}, head, how, element("td", {}, inline(answer ?? "–", 60)), numbers);
}

// ------------------------------------------------------------------------------------------------- the start

async function start() {
  const group = await readGroup();
  session.group = group;
  session.gate = new Gate(group, {
    ask: (question, options) => {
      ask(question, options);
      byId("verdict-title").focus({ preventScroll: true }); // the button is disabled now
    },
    open: show,
  });
  const isMany = group.agents.length > MANY;
  const names = isMany ? `${group.agents.length} agents` : listed(group.agents.map((name) => short(name, 60)));
  const answer = group.agents.length === 1 ? "answers" : "answer";
  const about = `${names} ${answer} each question. You get the answer only if the gate lets it pass.`;
  byId("about").replaceChildren(inline(about, 1000));
  byId("toy").hidden = !group.is_toy;
  byId("examples").hidden = group.examples.length === 0;
  byId("examples").append(...group.examples.slice(0, 8).map(exampleButton));
  session.entries = load(group.model);
  for (const entry of session.entries.filter(({ decision, error }) => !decision && !error)) {
    entry.error = { title: "Stopped", text: "The page was left before the decision." };
  }
  if (session.entries.length) show(session.entries.at(-1));
}

function exampleButton(question) {
  const button = element("button", { type: "button" }, inline(question, 90));
  button.addEventListener("click", () => {
    byId("question").value = question;
    ask(question);
  });
  return button;
}

offerTheme();
byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  const question = byId("question").value.trim();
  if (!session.group) return;
  const follows = byId("follows").checked && session.shown;
  if (question) ask(question, {}, follows ? conversation(session.shown) : []);
  else announce("Write a question first");
  if (!question) byId("question").focus();
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
  if (!session.running || session.shown.decision) return;
  showAgents(session.shown); // how long each has been asked
  showVerdict(session.shown);
}, 1000);
for (const part of document.querySelectorAll(".fold")) {
  part.open = !matchMedia("(max-width: 40rem)").matches; // on a phone the answer comes first
  part.addEventListener("toggle", () => session.shown && session.gate.update()); // what is hidden has no size
}

start()
  .catch((error) => {
    const { title, text } = describeError(error, false);
    byId("toy").hidden = false;
    byId("toy").replaceChildren(`${title}. `, inline(text, 400));
    byId("ask").disabled = true;
  })
  .finally(() => (document.documentElement.dataset.ready = "true"));
