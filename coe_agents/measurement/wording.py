"""Owns the description of a measurement in words: who says what, CoE next to its threshold, and what is contested.

Texts of models are untrusted. Who says what quotes them: each is shortened to one line in double quotes, without such
quotes inside, and without characters that control a terminal or make a link. Names and values of proposals are not
cleaned here: whoever shows them does.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from coe_agents.actions.proposals import NO_CALL, called_tools, describe_action
from coe_agents.clustering.refusals import answer_kind
from coe_agents.measurement.measurement import AgentMeasurement, Measurement
from coe_agents.measurement.weighting import rank_texts
from coe_agents.text import printable, quantity, quotation
from coe_agents.types import DEFAULT_ALEATORIC_THRESHOLD
from coe_agents.uncertainty.ties import TIE

MOSTLY = 0.8 - TIE
"""The share of its responses from which an agent "mostly" says one thing; below, it is "split"."""

_SAY, _PROPOSE = ("says", "say"), ("proposes", "propose")
_MOST_CLAIMS = 3
_MOST_SPLIT = 3
_WORDS = [
    "no",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
]

_REGIMES = {
    "consensus": ("each is confident, and they agree", "it is confident"),
    "conflict": ("each is confident, but they disagree", ""),
    "ambiguous": ("each is unsure, between the same answers", "it is unsure"),
    "unknown": ("each is unsure, and they disagree", ""),
}


class _Claim(NamedTuple):
    """What an agent says: always one answer, mostly one, or several, the best supported by the group first."""

    is_split: bool
    is_mostly: bool
    answers: tuple[str, ...]


def who_says_what(measurement: Measurement, *, n_agents: int | None = None) -> str:
    """Returns one clause about who says what, without a full stop; "" without agents.

    Of `n_agents` that were asked, those that are not in the measurement did not answer.

    Example:
        >>> from coe_agents.policy import measure
        >>> from coe_agents.testing import create_response
        >>> said = [create_response(name, text) for name, text in zip("abc", ("Canberra", "Canberra", "Sydney"))]
        >>> who_says_what(measure(said, [0, 0, 1]))
        'two of three agents say "Canberra", one says "Sydney"'
        >>> who_says_what(measure(said[1:], [0, 1]), n_agents=3)
        'one of three agents says "Canberra", one says "Sydney", one did not answer: a tie'
    """
    if not measurement.agents:
        return ""
    verbs = _SAY
    if measurement.proposals.calls is not None:
        verbs = _PROPOSE
        measurement = _with_actions_in_words(measurement)

    total = len(measurement.agents) if n_agents is None else n_agents
    support = dict(zip(measurement.representatives, measurement.support, strict=True))
    claims = _claims(measurement, support)
    counts = Counter(claims.values())

    def rank(claim: _Claim) -> tuple[Any, ...]:
        return claim.is_split, -counts[claim], -round(support[claim.answers[0]] / TIE), claim

    ordered = sorted(counts, key=rank)
    clauses: list[str] = []
    quoted: list[str] = []
    for claim in ordered[:_MOST_CLAIMS]:
        names = [name for name, claimed in claims.items() if claimed == claim]
        subject = _subject(names, claim, total, is_first=not clauses)
        clauses.append(f"{subject} {_predicate(claim, len(names), verbs)}")
        if len(claim.answers) <= _MOST_SPLIT:
            quoted += claim.answers

    n_split = 0
    n_others = 0
    for claim in ordered[_MOST_CLAIMS:]:
        if claim.is_split:
            n_split += counts[claim]
        else:
            n_others += counts[claim]
    if n_split:
        clauses.append(f"{_number(n_split)} more {'is' if n_split == 1 else 'are'} split")
    if n_others:
        clauses.append(f"{_number(n_others)} {'gives' if n_others == 1 else 'give'} other answers")
    if total > len(claims):
        clauses.append(f"{_number(total - len(claims))} did not answer")
    lead = _lead(measurement, support, counts, quoted)
    return f"{', '.join(clauses)}{lead}"


def regime_in_words(
    regime: str,
    entropies: Sequence[float] = (),
    *,
    n_agents: int,
    threshold: float = DEFAULT_ALEATORIC_THRESHOLD,
) -> str:
    """Returns what a regime means for several agents, or for one; "on average", if the entropy of one is unlike it.

    Example:
        >>> regime_in_words("conflict", [0.69, 0.0, 0.0], n_agents=3)
        'on average each is confident, but they disagree'
    """
    of_several, of_one = _REGIMES[regime]
    if n_agents == 1:
        return of_one
    is_low = regime in ("consensus", "conflict")
    if any((entropy <= threshold) != is_low for entropy in entropies):
        return f"on average {of_several}"
    return of_several


_LACKS = {
    "cut": ("was cut at max_tokens", "were cut at max_tokens"),
    "filtered": ("was filtered by its provider", "were filtered by their providers"),
    "unknown": (
        "did not end as its provider ends whole ones",
        "did not end as their providers end whole ones",
    ),
    "empty": ("is empty", "are empty"),
}


def lacking_in_words(agents: Iterable[Mapping[str, Any]], *, only_most: bool = False) -> str:
    """Returns how many responses lack an answer, or a part of it, and why; "" where none does.

    Args:
        agents: As in the data of a decision. Where `max_tokens` of a "sampling" is known, it is told.
        only_most: Whether to say so only where most responses of an agent do, so that it has no view to differ.

    Example:
        >>> a = {"n_responses": 5, "lacking": {"cut": 2, "empty": 1}, "sampling": [{"max_tokens": 20}]}
        >>> lacking_in_words([a, {"n_responses": 5, "lacking": {"cut": 1}}])
        '3 of 10 responses were cut at max_tokens (20), 1 is empty'
    """
    n_responses = 0
    lacks = Counter[str]()
    limits = set[int]()
    most_lack = False
    for agent in agents:
        lacking = agent.get("lacking") or {}
        if "cut" in lacking:
            known = (record.get("max_tokens") for record in agent.get("sampling", ()))
            limits.update(filter(None, known))
        n_responses += agent.get("n_responses", 0)
        lacks.update(lacking)
        most_lack = most_lack or lacks_most(agent.get("n_responses", 0), lacking)
    if only_most and not most_lack:
        return ""
    clauses: list[str] = []
    for lack, (of_one, of_several) in _LACKS.items():
        n = lacks[lack]
        if n:
            of_all = "" if clauses else f" of {quantity(n_responses, 'response')}"
            clauses.append(f"{n}{of_all} {of_one if n == 1 else of_several}")
            if lack == "cut" and limits:
                clauses[-1] += f" ({' or '.join(map(str, sorted(limits)))})"
    return ", ".join(clauses)


def lacks_most(n_responses: int, lacking: Mapping[str, int]) -> bool:
    """Returns whether most responses of an agent lack an answer or a part of it."""
    return 2 * sum(lacking.values()) > n_responses


def is_unlike(measurement: Measurement) -> bool:
    """Returns whether most answers have several words, and few are equal: such answers are compared by meaning."""
    if measurement.proposals.calls is not None:
        return False
    n_responses = sum(agent.n_responses for agent in measurement.agents.values())
    n_answers = len(measurement.representatives)
    n_long = sum(len(text.split()) > 2 for text in measurement.representatives)
    return 2 * n_long > n_answers > 2 and 3 * n_answers > n_responses


def beside(value: float, limit: float) -> str:
    """Returns a number with three digits; with six, if it could not be told from the limit that it is compared with.

    >>> beside(0.5, 0.7), beside(0.50004, 0.5), beside(0.5, 0.5)
    ('0.500', '0.500040', '0.500')
    """
    is_alike = f"{value:.3f}" == f"{limit:.3f}" and f"{value:.6f}" != f"{limit:.6f}"
    return f"{value:.6f}" if is_alike else f"{value:.3f}"


def coe_in_words(
    measurement: Measurement, *, limit: float = math.inf, with_parts: bool = False
) -> str:
    """Returns CoE, which is compared with a limit, and its parts if asked for."""
    parts = parts_in_words(measurement.aleatoric, measurement.epistemic) if with_parts else ""
    return f"CoE {beside(measurement.coe, limit)}{parts}"


def parts_in_words(aleatoric: float, epistemic: float) -> str:
    """Returns the parts of CoE in parentheses; a command that shows them itself leaves them out."""
    return f" (aleatoric {aleatoric:.3f} within models, epistemic {epistemic:.3f} between models)"


def _claims(measurement: Measurement, support: Mapping[str, float]) -> dict[str, _Claim]:
    """Returns what each agent says, by name."""
    claims: dict[str, _Claim] = {}
    for name, agent in measurement.agents.items():
        ranked = rank_texts(agent.distribution.items())
        text, share = ranked[0]
        if share >= MOSTLY:
            claims[name] = _Claim(False, len(ranked) > 1, (text,))
        else:
            by_support = rank_texts((text, support[text]) for text in agent.distribution)
            claims[name] = _Claim(True, False, tuple(text for text, _ in by_support))

    # who mostly says one thing says it: one clause for all who do
    mostly = {claim.answers for claim in claims.values() if claim.is_mostly}
    for name, claim in claims.items():
        claims[name] = claim._replace(is_mostly=claim.answers in mostly)
    return claims


def _subject(names: Sequence[str], claim: _Claim, total: int, *, is_first: bool) -> str:
    n = len(names)
    if total == 1:
        return "the agent"
    if claim.is_split and n == 1:
        return printable(names[0])
    if not is_first:
        return _number(n)
    if n == total:
        return "both agents" if n == 2 else f"all {_number(n)} agents"
    return f"{_number(n)} of {_number(total)} agents"


def _with_actions_in_words(measurement: Measurement) -> Measurement:
    """Returns the measurement with proposals as people read them; what is no proposal stays as it is."""
    agents: dict[str, AgentMeasurement] = {}
    for name, agent in measurement.agents.items():
        shares = agent.distribution.items()
        distribution = {action_in_words(text): share for text, share in shares}
        agents[name] = replace(agent, distribution=distribution)
    return replace(
        measurement,
        representatives=tuple(map(action_in_words, measurement.representatives)),
        tied=tuple(map(action_in_words, measurement.tied)),
        agents=agents,
    )


def _predicate(claim: _Claim, n: int, verbs: tuple[str, str]) -> str:
    is_one = n == 1
    if claim.is_split:
        return f"{'is' if is_one else 'are'} split {_between(claim.answers)}"
    answer = claim.answers[0]
    kind = answer_kind(answer)
    verb = verbs[0] if is_one else verbs[1]
    mostly = "mostly " if claim.is_mostly else ""
    if kind == "refusal":
        return f"{mostly}{'declines' if is_one else 'decline'} to answer ({quotation(answer)})"
    if answer == NO_CALL and verbs == _PROPOSE:
        return f"{mostly}{verb} to call nothing"
    return f"{mostly}{verb} {'nothing' if kind == 'empty' else quotation(answer)}"


def _between(answers: Sequence[str]) -> str:
    if len(answers) > _MOST_SPLIT:
        return f"among {len(answers)} answers"
    return f"between {_listed([_named(text) for text in answers])}"


def _named(text: str) -> str:
    kind = answer_kind(text)
    if kind == "empty":
        return "saying nothing"
    if kind == "refusal":
        return f"declining ({quotation(text)})"
    return quotation(text)


def _lead(
    measurement: Measurement,
    support: Mapping[str, float],
    counts: Mapping[_Claim, int],
    quoted: Sequence[str],
) -> str:
    """Returns a clause about a tied lead, or the leading answer where the numbers of agents do not show it."""
    tied = measurement.tied
    if tied:
        if set(tied) <= set(quoted):
            return ": a tie"
        named = [_named(text) for text in tied[:_MOST_SPLIT]]
        if len(tied) > _MOST_SPLIT:
            named.append(f"{len(tied) - _MOST_SPLIT} more")
        return f": {_listed(named)} tie"
    leading, share = rank_texts(support.items())[0]
    behind = Counter[str]()
    for claim, n in counts.items():
        if not claim.is_split:
            behind[claim.answers[0]] += n
    n_leading = behind.pop(leading, 0)
    is_hidden = len(counts) > 1 and n_leading == 0
    if is_hidden or any(n >= n_leading for n in behind.values()):
        return f"; {_named(leading)} leads with {share:.0%} of the group"
    return ""


def _listed(parts: Sequence[str]) -> str:
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def _number(n: int) -> str:
    return _WORDS[n] if n < len(_WORDS) else str(n)


_MOST_VALUES = 4
_LONGEST_VALUE = 60


def is_about_actions(decision: Mapping[str, Any]) -> bool:
    """Returns whether a decision is about tool calls that agents proposed."""
    return (
        decision.get("answer_kind") in ("call", "no_call") or decision.get("contested") is not None
    )


def action_in_words(text: str) -> str:
    """Returns an action in words; a text that is not an action stays as it is.

    Example:
        >>> action_in_words('[{"args":{"to":"ann"},"name":"pay"}]'), action_in_words("Paris")
        ('pay(to="ann")', 'Paris')
    """
    return text if called_tools(text) is None else describe_action(text)


def contested_in_words(contested: Mapping[str, Any], *, n_agents: int) -> str:
    """Returns the sentence about the argument with the most votes against the leading proposal, or about the tool.

    Example:
        >>> values = [{"value": 5, "agents": ["a", "b"]}, {"value": 900, "agents": ["c"]}]
        >>> contested_in_words({"candidates": {"pay.amount": values}}, n_agents=3)
        'They disagree about `amount` of `pay`: 5 (a, b) or 900 (c).'
    """
    candidates = contested["candidates"]
    keys = [key for key in candidates if key != "tool"] or [*candidates]
    if not keys:
        return ""
    tool, _, name = keys[0].partition(".")
    what = f"`{name}` of `{tool}`" if name else "the tool"
    nothing = "omitted" if name else "no call"
    values: list[str] = []
    for candidate in candidates[keys[0]]:
        value = nothing if candidate["value"] is None else _short(candidate["value"])
        values.append(f"{value} ({', '.join(candidate['agents'])})")
    n_more = len(values) - _MOST_VALUES
    if n_more > 0:
        values[_MOST_VALUES:] = [f"{n_more} more"]
    who = "They disagree about" if n_agents > 1 else "It hesitates about"
    listed = " or ".join(filter(None, [", ".join(values[:-1]), values[-1]]))
    return f"{who} {what}: {listed}."


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"
