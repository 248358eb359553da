// What a decision says: in sentences, by meaning, and in the numbers that a gate compares

import { capital, line } from "./text.js";

export const REGIMES = {
  consensus: ["confident, and agree", "little doubt within the agents, little disagreement between them"],
  conflict: ["confident, but disagree", "little doubt within the agents, much disagreement between them"],
  ambiguous: ["unsure, but alike", "much doubt within the agents, little disagreement between them"],
  unknown: ["unsure, and disagree", "much doubt within the agents, much disagreement between them"],
};
const MOSTLY = 0.8 - 1e-9; // from this share of its responses on, an agent says one thing

// The clauses of a reason; a semicolon within double quotes, where models are quoted, ends none
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
export function sentences(decision) {
  const all = clauses(decision.reason);
  const numeric = all.filter((clause) => /\d\.\d/.test(unquoted(clause)));
  const plain = all.filter((clause) => !numeric.includes(clause)).join("; ");
  const startsWithName = Object.keys(decision.agents).some((name) => plain.startsWith(`${line(name)} `));
  const sentence = (text) => (text ? `${startsWithName ? text : capital(text)}.` : "");
  return { plain: sentence(plain), numeric: numeric.length ? `${capital(numeric.join("; "))}.` : "" };
}

// Why there is no answer, as a sentence
export function cause(decision) {
  if (decision.is_late) return "The time was up";
  if (decision.coe === null) return "No agent answered";
  if (decision.regime === null) return "Too few agents answered";
  if (decision.tied.length) return "It is a tie";
  const answers = Object.values(decision.agents).map(({ distribution }) => {
    const shares = Object.entries(distribution);
    const most = shares.filter(([, share]) => share >= MOSTLY);
    return (most.length ? most : shares).map(([text]) => text).sort();
  });
  if (answers.flat().every((text) => decision.declining.includes(text))) return "They decline to answer";
  if (decision.regime === "ambiguous") return "They are not sure";
  if (answers.some((own) => own.join("\0") !== answers[0].join("\0"))) return "They disagree";
  return answers.some((own) => own.length > 1) ? "They are not sure" : "The gate withholds the answer";
}

// Why no threshold makes a gate answer; "" where one does
export function obstacle(decision) {
  if (decision.coe === null) return "nothing could be measured";
  if (decision.regime === null) return "too few agents answered";
  if (decision.tied.length) return "the leading answers tie";
  return { refusal: "the leading answer declines to answer", empty: "the leading answer is empty" }[decision.answer_kind] ?? "";
}

// The responses that count, each with its agent and the representative of its cluster
export function responsesOf(decision) {
  const all = Object.entries(decision.responses).flatMap(([agent, own]) => own.map((each) => ({ ...each, agent })));
  const counting = all.filter(({ cluster }) => cluster !== null);
  return counting.map((each) => ({ ...each, meaning: decision.clusters[each.cluster].representative }));
}

// The meanings, the best supported first, with the agents and the responses of each
export function meaningsOf(decision) {
  const byText = (a, b) => (a.representative < b.representative ? -1 : 1);
  const ranked = decision.clusters.toSorted((a, b) => b.support - a.support || byText(a, b));
  const found = new Map(
    ranked.map(({ representative, support }, place) => [
      representative,
      { text: representative, share: support, place, agents: [], responses: [] },
    ]),
  );
  for (const [name, { distribution }] of Object.entries(decision.agents)) {
    for (const [text, share] of Object.entries(distribution)) found.get(text)?.agents.push({ name, share });
  }
  for (const response of responsesOf(decision)) found.get(response.meaning)?.responses.push(response);
  for (const meaning of found.values()) meaning.agents.sort((a, b) => b.share - a.share);
  return [...found.values()];
}
