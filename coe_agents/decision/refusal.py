"""Owns the sentences in which a caller is told that there is no answer; they hold no text of a response.

A decision's reason quotes what the agents said. A caller of the gate must not see that, so these sentences are made
from the numbers.
"""

from collections.abc import Mapping
from typing import Any

from coe_agents.actions.structured import ANSWER
from coe_agents.clustering.refusals import answer_kind
from coe_agents.decision.group_decision import HEADINGS
from coe_agents.decision.views import kind_of
from coe_agents.errors import InvalidReplyError
from coe_agents.measurement.wording import lacking_in_words
from coe_agents.text import decomposition

_CAUSES = {
    "consensus": "the agents are not certain enough",
    "conflict": "the agents are confident of different answers",
    "ambiguous": "each agent is unsure, between the same answers",
    "unknown": "each agent is unsure, and they disagree",
}
_ROUNDING = 1e-9
_LONGEST = 64
_MOST_ARGUMENTS = 3


def refusal(decision: Mapping[str, Any]) -> str:
    """Returns why there is no answer, in plain words, and then the numbers, unless too few agents answered.

    Example:
        >>> numbers = {"coe": 0.75, "aleatoric": 0.05, "epistemic": 0.7, "tied": []}
        >>> said = {"cause": "uncertain", "support": {"Lyon": 0.7, "Nice": 0.3}}
        >>> refusal({"action": "abstain", "regime": "conflict", **said, **numbers})
        'No answer: the agents are confident of different answers. CoE 0.750 = aleatoric 0.050 + epistemic 0.700 nats.'
    """
    sentence = f"{HEADINGS[decision['action']]}: {why_not(decision)}."
    # too few agents look certain
    if decision["coe"] is None or decision["regime"] is None:
        return sentence
    parts = {name: decision[name] for name in ("coe", "aleatoric", "epistemic")}
    above = ", above the limit of this request" if decision["cause"] == "limit_of_caller" else ""
    return f"{sentence} CoE {decomposition(**parts)}{above}."


def is_refusal(text: str) -> bool:
    """Returns whether a text is a sentence of `refusal`, as a client that keeps it as plain text sends it back.

    This is the one place where our own words are read: what such a client sends back has no mark.
    """
    return text.startswith(tuple(f"{head}: " for head in HEADINGS.values()))


def why_not(decision: Mapping[str, Any]) -> str:
    """Returns why there is no answer, as a clause without numbers and without a text of a response."""
    if decision.get("is_late") or decision.get("is_unfit"):
        return str(decision["reason"])
    if decision["regime"] is None:
        failures = decision.get("failed_agents") or {}
        kinds = {kind_of(error) for error in failures.values()}
        if InvalidReplyError.__name__ in kinds:
            return "too few agents gave a valid reply"
        return "too few agents answered"
    agents = decision.get("agents") or {}
    lacking = lacking_in_words(agents.values(), only_most=True)
    if lacking:
        return lacking
    kinds_of_answers = {answer_kind(text) for text in decision["support"]}
    if kinds_of_answers <= {"refusal", "empty"}:
        return "the agents decline to answer"

    cause = "several answers share the lead" if decision["tied"] else _CAUSES[decision["regime"]]
    contested = decision.get("contested")
    differences = _differences(contested)
    if contested is None or not differences:
        return cause
    tools = {tool for tool, _ in contested.get("where", ())}
    what = "the answers" if tools == {ANSWER} else "the proposals"
    return f"{cause}; {what} differ in {' and in '.join(differences)}"


def _differences(contested: Mapping[str, Any] | None) -> list[str]:
    """Returns in what proposals differ; the names are those of the caller's own tools."""
    if contested is None:
        return []
    differences = []
    if contested["call"] > _ROUNDING:
        differences.append("whether to call a tool")
    if contested["tool"] - contested["call"] > _ROUNDING:
        differences.append("the tool")
    for tool, name in contested.get("where", [])[:_MOST_ARGUMENTS]:
        argument = f'"{name[:_LONGEST]}"'
        # a structured answer is one call of a tool of ours, which the caller does not know
        if tool != ANSWER:
            argument += f' of "{tool[:_LONGEST]}"'
        differences.append(argument)
    return differences
