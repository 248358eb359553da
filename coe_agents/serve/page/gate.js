// The gate: its own limits, others to try, and what it would have done with the questions of the session

import { meaningsOf, obstacle } from "./decision.js";
import { describePlace, Plane } from "./plane.js";
import { byId, element } from "./parts.js";
import { inline, listed, number, short } from "./text.js";

const LABELS = {
  coe: "Answer where CoE is at most",
  aleatoric: "Doubt within agents, at most",
  epistemic: "Disagreement, at most",
};
const NAMES = { coe: "CoE", aleatoric: "doubt", epistemic: "disagreement" };
const OPTIONS = { coe: "max_coe", aleatoric: "aleatoric_threshold", epistemic: "epistemic_threshold" };
const SLACK = 1e-9;

export class Gate {
  // `ask` asks a question again with options; `open` shows an earlier one
  constructor(group, { ask, open }) {
    const { type, max_coe: coe, aleatoric_threshold: aleatoric, epistemic_threshold: epistemic } = group.policy;
    this.open = open;
    this.lines = { aleatoric, epistemic };
    this.isRegime = type === "RegimePolicy";
    this.isKnown = this.isRegime || typeof coe === "number"; // else its own rule is another one
    this.own = this.isRegime ? { ...this.lines } : { coe: coe ?? 0.6 };
    this.limits = { ...this.own };
    this.sliders = Object.keys(this.own).map((part) => this.slider(part));
    byId("sliders").replaceChildren(...this.sliders.map(({ box }) => box));
    this.plane = new Plane(byId("plane"), (limits) => this.set(limits));
    byId("reset").addEventListener("click", () => {
      this.set(this.own);
      this.sliders[0].input.focus(); // the button is disabled now
    });
    byId("again").addEventListener("click", () => {
      const options = Object.entries(this.limits).map(([part, limit]) => [OPTIONS[part], limit]);
      ask(this.shown.question, Object.fromEntries(options), this.shown.before);
    });
    byId("gate-note").textContent = this.note(group, type);
  }

  note(group, type) {
    if (!this.isKnown) return `This group’s gate is of another kind (${short(type, 60)}). The slider shows a plain threshold on CoE.`;
    const rounds = group.max_rounds > 1 ? " Asked again, it may ask for more rounds first." : "";
    const words = "Only this page changes; the server’s gate stays as it is.";
    return `${words} A stricter one can be asked for, a looser one cannot.${rounds}`;
  }

  slider(part) {
    const input = element("input", { type: "range", min: "0", step: "0.01", id: `limit-${part}` });
    const output = element("output", { for: input.id });
    input.addEventListener("input", () => this.set({ [part]: Number(input.value) }));
    const box = element("div", "slider", element("label", { for: input.id }, LABELS[part]), input, output);
    return { part, input, output, box };
  }

  set(limits) {
    for (const { part, input } of this.sliders) {
      if (part in limits) this.limits[part] = Math.min(limits[part], Number(input.max));
    }
    this.update();
  }

  isOwn() {
    return Object.keys(this.own).every((part) => Math.abs(this.limits[part] - this.own[part]) < SLACK);
  }

  isStricter() {
    return !this.isOwn() && Object.keys(this.own).every((part) => this.limits[part] <= this.own[part] + SLACK);
  }

  // Whether the gate answers at these limits; at its own it did what it did, unless it was asked to be stricter
  answers({ decision, options }) {
    const isKnown = this.isOwn() && this.isKnown && decision.decided_by === "group" && !Object.keys(options).length;
    if (isKnown) return decision.action === "answer";
    return !obstacle(decision) && Object.keys(this.own).every((part) => decision[part] <= this.limits[part] + SLACK);
  }

  show(entries, shown, isAsking) {
    Object.assign(this, { entries, shown, isAsking });
    this.update();
  }

  update() {
    const decided = this.entries.filter(({ decision }) => decision);
    byId("gate").hidden = decided.length === 0;
    if (!decided.length) return;
    const decisions = decided.map(({ decision }) => decision).filter(({ regime }) => regime !== null);
    for (const { part, input, output } of this.sliders) {
      const most = Math.max(2 * this.own[part], ...decisions.map((each) => 1.15 * each[part]));
      output.textContent = `${number(this.limits[part], 2)} nats`;
      Object.assign(input, { max: String(Math.ceil(10 * most) / 10), value: String(this.limits[part]) });
      input.setAttribute("aria-valuetext", output.textContent);
    }
    const { decision = null } = this.shown;
    this.plane.draw({ decisions, shown: decision, lines: this.lines, limits: this.limits, own: this.own });
    byId("plane-words").textContent = decision ? describePlace(decision) : "";
    byId("would").hidden = decision === null;
    if (decision) this.explain(this.shown);
    this.list(decided);
    byId("reset").disabled = this.isOwn();
    byId("reset").textContent = `Back to ${listed(Object.values(this.own).map((limit) => number(limit, 2)))}`;
    byId("again").disabled = !decision || !this.isStricter() || this.isAsking;
  }

  where() {
    return `At ${listed(Object.values(this.limits).map((limit) => number(limit, 2)))} nats`;
  }

  // What the gate does with the question that is shown
  explain(entry) {
    const { decision } = entry;
    const never = obstacle(decision);
    const answers = this.answers(entry);
    const verb = (name) => element("b", {}, this.isOwn() && this.isKnown ? `${name}s` : `would ${name}`);
    const comparison = listed(Object.keys(this.own).map((part) => this.compare(part, decision[part])));
    const box = byId("would");
    box.dataset.kind = answers ? "answer" : "abstain";
    if (never) {
      box.replaceChildren(element("b", {}, "No threshold makes the gate answer this question:"), ` ${never}.`);
    } else if (answers) {
      const leading = inline(decision.answer ?? meaningsOf(decision)[0].text, 80);
      const words = [" this question with “", leading, `”: ${comparison}.`];
      box.replaceChildren(`${this.where()} the gate `, verb("answer"), ...words);
    } else {
      box.replaceChildren(`${this.where()} the gate `, verb("withhold"), ` the answer: ${comparison}.`);
    }
  }

  compare(part, value) {
    const relation = value <= this.limits[part] + SLACK ? "is at most" : "exceeds";
    return `${NAMES[part]} ${number(value)} ${relation} ${number(this.limits[part], 2)}`;
  }

  list(decided) {
    const did = decided.filter(({ decision }) => decision.action === "answer").length;
    const would = decided.filter((entry) => this.answers(entry)).length;
    const verb = this.isOwn() && this.isKnown ? "answers" : "would answer";
    byId("counts").hidden = decided.length === 1;
    byId("counts").textContent =
      `The gate answered ${did || "none"} of ${decided.length} questions. ${this.where()} it ${verb} ${would || "none"}.`;
    const rows = byId("session").tBodies[0];
    const hadFocus = rows.contains(document.activeElement);
    rows.replaceChildren(...this.entries.toReversed().map((entry) => this.row(entry)));
    if (hadFocus) rows.querySelector("[aria-current]")?.focus();
  }

  row(entry) {
    const { decision, error, question } = entry;
    const button = element("button", { type: "button", class: "open" }, inline(question, 90));
    if (entry === this.shown) button.setAttribute("aria-current", "true");
    button.addEventListener("click", () => this.open(entry));
    const row = (coe, ...cells) => {
      const head = [element("th", { scope: "row" }, button), element("td", "number wide", coe)];
      return element("tr", {}, head, cells.map((cell) => element("td", {}, cell)));
    };
    if (!decision) return row("–", error ? "no result" : "is asked", "–");
    const [did, would] = [decision.action === "answer", this.answers(entry)];
    const past = did ? "answered" : { escalate: "escalated" }[decision.action] ?? "withheld";
    const leading = did ? null : meaningsOf(decision)[0]?.text;
    const what = leading ? element("span", "what", " “", inline(leading, 40), "”") : null;
    const change = did === would ? "" : "changed";
    const coe = decision.regime === null ? "–" : number(decision.coe, 2);
    return row(coe, element("span", {}, mark(did, past), what), mark(would, would ? "answers" : "withholds", change));
  }
}

function mark(isGiven, words, change = "") {
  return element("span", `${isGiven ? "given-mark" : "withheld-mark"} ${change}`, `${isGiven ? "●" : "✕"} ${words}`);
}
