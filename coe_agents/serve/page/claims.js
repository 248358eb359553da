// The claims of a long answer: underlined by the support of the other models, each opens to show who says what

import { element } from "./parts.js";
import { inline, percent, visible } from "./text.js";

const DONE = { keep: "kept", mark: "marked", drop: "left out" };
const KINDS = { supports: "supports it", contradicts: "contradicts it", silent: "says nothing of it" };

export const hasClaims = (decision) => Boolean(decision?.claims?.length);

// Where the claims that are given stand in the answer: see `answerOf`; the number of each claim is in the last place
export function spansOf(decision) {
  const source = visible(decision.answer);
  const spans = [];
  let from = 0;
  decision.claims.forEach(({ text, action }, number) => {
    const start = action === "drop" ? -1 : source.indexOf(visible(text), from);
    if (start < 0) return;
    from = start + visible(text).length;
    spans.push([start, from, `claim ${action}`, number]);
  });
  return spans;
}

// The list of claims; a click on one in the answer opens its place here
export function claimList(decision) {
  const items = decision.claims.map((claim) => {
    const { action, support_between: support } = claim;
    const share = support === null ? "no other model" : `support ${percent(support)}`;
    const said = underlined(element("span", `claim ${action}`, inline(claim.text, 600)), support);
    const summary = element("summary", {}, said, element("span", "note", ` ${DONE[action]}, ${share}`));
    return element("li", {}, element("details", {}, summary, element("ul", "who", voices(claim))));
  });
  return [element("h3", {}, "Claim by claim"), element("ul", "claims", items)];
}

const voices = ({ agents }) =>
  Object.entries(agents).map(([name, shares]) => {
    const parts = Object.entries(KINDS).filter(([kind]) => shares[kind] > 0.005);
    const words = parts.map(([kind, verb]) => (shares[kind] > 0.995 ? verb : `${verb} (${percent(shares[kind])})`));
    return element("li", {}, inline(name, 60), ` ${words.join(", ")}`);
  });

export function connect(answer, list, decision) {
  const spans = spansOf(decision);
  for (const part of answer.querySelectorAll("[data-span]")) {
    const [, , , number] = spans[Number(part.dataset.span)];
    underlined(part, decision.claims[number].support_between);
    part.addEventListener("click", () => {
      const place = list.querySelectorAll("details")[number];
      place.open = true;
      place.querySelector("summary").focus();
    });
  }
}

function underlined(node, support) {
  node.style.setProperty("--support", `${Math.round(100 * (support ?? 0))}%`);
  return node;
}
