// The questions of a run, and what happened in them.
const ANSWERED = new Set(["right", "wrong", "partly right", "no verdict"]);
const stateMark = (state) => (ANSWERED.has(state) ? mark(state) : element("span", { class: "mark unknown" }, state));
const isWithheld = (run) => run.state === "refused" || run.state === "escalated";
const leadingOf = (run) => (isWithheld(run) && run.leading !== null ? [element("br"), element("small", {}, `${verdictOf(run.leading)} answer led`)] : []);
const whole = (value) => (value === null ? "–" : String(Math.round(value)));
const seconds = (value) => (value === null ? "–" : value < 10 ? value.toFixed(1) : value.toFixed(0));

const COLUMNS = [
  ["text", "question"],
  ["state", "outcome"],
  ["reason", "reason", "wide"],
  ["regime", "regime", "wide"],
  ["coe", "CoE"],
  ["n", "rounds", "wide"],
  ["tokens", "tokens", "wide"],
  ["seconds", "seconds", "wide"],
];

class Decisions extends QuestionTable {
  constructor(rows, most, block) {
    super(rows, COLUMNS, block);
    this.most = most;
    this.look();
  }

  value(row, key) {
    return row.sort[key];
  }

  risesFirst(key) {
    return key === "text" || key === "state";
  }

  tie(a, b) {
    return a.place - b.place;
  }

  filter() {
    const [state, regime, rounds] = ["state-of", "regime", "rounds"].map((id) => byId(id).value);
    return ({ run }) =>
      (!state || run.state === state) && (!regime || run.regime === regime) && (!rounds || (rounds === "more") === run.rounds.length > 1);
  }

  line(row) {
    const { run } = row;
    return this.folded(
      row,
      element("td", {}, stateMark(run.state), ...leadingOf(run)),
      element("td", { class: "wide" }, element("div", { class: "clamp said" }, run.reason ?? "–")),
      element("td", { class: "wide" }, run.regime ?? "–"),
      element("td", {}, nats(run.coe)),
      element("td", { class: "wide" }, trajectory(run.rounds, this.most)),
      element("td", { class: "wide" }, whole(run.tokens)),
      element("td", { class: "wide" }, seconds(run.seconds)),
    );
  }

  *describe(row, found) {
    yield element("p", { class: "note said" }, `id: ${row.id}`);
    if (found.error) yield element("p", { class: "wrong said" }, `The group failed: ${found.error}`);
    else yield* describeDecision(found, this.most);
  }
}

function* describeDecision(step, most) {
  const what = { answer: "Answered", abstain: "Refused", escalate: "Escalated" }[step.action];
  const verdict = step.correct === null ? [] : [" ", mark(verdictOf(step.correct))];
  const by = step.by === "group" ? "" : `, decided by ${step.by}`;
  yield element("p", { class: "said" }, element("strong", {}, step.answer === null ? what : `${what}: ${step.answer}`), ...verdict, by);
  if (step.reason) yield element("p", { class: "said" }, step.reason);
  if (step.claims.length) yield element("ul", { class: "claims", "aria-label": "Claims" }, ...step.claims.map(claimItem));
  yield element("div", { class: "scroll", role: "region", "aria-label": "Rounds", tabindex: "0" }, roundsTable(step));
  if (step.rounds.length > 1) yield element("div", { class: "drawn" }, trajectory(step.rounds.map((round) => round.bars), most, { height: 80 }));
  if (step.support.length) {
    const list = step.support.map(([text, all, own]) => {
      const voices = step.names.map((name, i) => (own[i] ? `${name} ${share(own[i], 1)}` : null)).filter(Boolean);
      return element("li", {}, element("span", { class: "said" }, `${text || "(empty)"} `), element("small", { class: "said" }, `${share(all, 1)} of the group: ${voices.join(", ")}`));
    });
    yield element("details", {}, element("summary", {}, `${plural(list.length, "answer")} after the last round`), element("ul", {}, ...list));
  }
  const tokens = step.tokens.map(([name, given, said]) => `${name} ${given ?? "?"} + ${said ?? "?"}`);
  const conformity = step.conformity === null ? [] : [`conformity ${share(step.conformity, 1)}`];
  yield element("p", { class: "note said" }, [...conformity, `tokens, input + output: ${tokens.join(", ") || "none"}`].join("; "));
  for (const [name, why] of step.failures) yield element("p", { class: "wrong said" }, `${name} failed: ${why}`);
}

// A claim, underlined by the support of the other models; it opens to show who says what
function claimItem({ text, action, support, agents }) {
  const done = { keep: "kept", mark: "marked", drop: "left out" }[action] ?? "–";
  const said = element("span", { class: `claim said ${done === "left out" ? "dropped" : ""}` }, text);
  said.style.setProperty("--support", `${Math.round(100 * (support ?? 0))}%`);
  const voices = agents.map(([name, supports, contradicts]) => element("li", { class: "said" }, `${name}: supports it ${share(supports ?? 0, 1)}, contradicts it ${share(contradicts ?? 0, 1)}`));
  const words = ` ${done}, ${support === null ? "no other model" : `support ${share(support, 1)}`}`;
  return element("li", {}, element("details", {}, element("summary", {}, said, element("small", {}, words)), element("ul", {}, ...voices)));
}

function roundsTable({ agents, rounds }) {
  const heads = ["round", "asked by", "regime", "CoE", "aleatoric", "epistemic", "the group", ...agents, "responses", "tokens"];
  const table = element("table", { class: "rounds", "aria-label": "Rounds" }, element("thead", {}, element("tr", {}, ...heads.map((name) => element("th", { scope: "col" }, element("bdi", {}, name))))));
  const body = element("tbody");
  for (const [place, round] of rounds.entries()) {
    const [aleatoric, epistemic] = round.bars;
    const coe = aleatoric === null || epistemic === null ? null : aleatoric + epistemic;
    const leads = round.led.length > 1 ? `tie: ${round.led.join(" | ")}` : round.answer ?? "–";
    const verdict = round.correct === null ? [] : [" ", mark(verdictOf(round.correct))];
    const said = round.said.map(([text, change]) => element("td", { class: "said" }, text ?? "–", ...(change ? [" ", element("em", {}, change)] : [])));
    body.append(
      element(
        "tr",
        {},
        element("th", { scope: "row" }, String(place + 1)),
        element("td", {}, round.strategy ?? "the question"),
        element("td", {}, round.regime ?? "–"),
        ...[coe, aleatoric, epistemic].map((value) => element("td", {}, nats(value))),
        element("td", { class: "said" }, leads, ...verdict),
        ...said,
        element("td", {}, whole(round.responses)),
        element("td", {}, whole(round.tokens)),
      ),
    );
  }
  table.append(body);
  return table;
}
