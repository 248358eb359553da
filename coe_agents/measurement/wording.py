"""Owns the description of a measurement in words: who says what, CoE next to its threshold, and what is contested.

Texts of models are untrusted. Who says what quotes them: each is shortened to one line in double quotes, without such
quotes inside, and without characters that control a terminal or make a link. Names and values of proposals are not
cleaned here: whoever shows them does.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from coe_agents.actions.proposals import NO_CALL, called_tools, describe_action
from coe_agents.clustering.refusals import answer_kind
from coe_agents.measurement.measurement import DEFAULT_ALEATORIC_THRESHOLD, Measurement
from coe_agents.measurement.weighting import rank_texts
from coe_agents.text import for_prompt, printable, quantity
from coe_agents.uncertainty.ties import TIE

MOSTLY = 0.8 - TIE
"""The share of its responses from which an agent "mostly" says one thing; below, it is "split"."""

_SAY, _PROPOSE = ("says", "say"), ("proposes", "propose")
_MAX_CHARS = 80
_MOST_CLAIMS = 3
_MOST_SPLIT = 3
_WORDS = (
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
)

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
        verbs, measurement = _PROPOSE, _with_actions_in_words(measurement)
    total = len(measurement.agents) if n_agents is None else n_agents
    support = dict(zip(measurement.representatives, measurement.support, strict=True))
    claims = {name: _claim(said.distribution, support) for name, said in measurement.agents.items()}
    # who mostly says one thing says it: one clause for all who do
    mostly = {claim.answers for claim in claims.values() if claim.is_mostly}
    claims = {
        name: claim._replace(is_mostly=claim.answers in mostly) for name, claim in claims.items()
    }
    counts = Counter(claims.values())
    ordered = sorted(
        counts,
        key=lambda claim: (
            claim[:1],
            -counts[claim],
            -round(support[claim.answers[0]] / TIE),
            claim,
        ),
    )
    clauses: list[str] = []
    for claim in ordered[:_MOST_CLAIMS]:
        names = [name for name, own in claims.items() if own == claim]
        clauses.append(
            f"{_subject(names, claim, total, is_first=not clauses)} {_predicate(claim, len(names), verbs)}"
        )
    rest = ordered[_MOST_CLAIMS:]
    if n_split := sum(counts[claim] for claim in rest if claim.is_split):
        clauses.append(f"{_number(n_split)} more {'is' if n_split == 1 else 'are'} split")
    if others := sum(counts[claim] for claim in rest if not claim.is_split):
        clauses.append(f"{_number(others)} {'gives' if others == 1 else 'give'} other answers")
    if total > len(claims):
        clauses.append(f"{_number(total - len(claims))} did not answer")
    shown = [
        text
        for claim in ordered[:_MOST_CLAIMS]
        for text in claim.answers
        if len(claim.answers) <= _MOST_SPLIT
    ]
    return f"{', '.join(clauses)}{_lead(measurement, support, counts, shown)}"


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
    is_low = regime in ("consensus", "conflict")
    is_mean = n_agents > 1 and any((entropy <= threshold) != is_low for entropy in entropies)
    return f"{'on average ' if is_mean else ''}{_REGIMES[regime][n_agents == 1]}"


_LACKS = {
    "cut": ("was cut off", "were cut off"),
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
        agents: As in the data of a decision.
        only_most: Whether to say so only where most responses of an agent do, so that it has no view to differ.

    Example:
        >>> agents = {"n_responses": 5, "lacking": {"cut": 2, "empty": 1}}, {"n_responses": 5, "lacking": {"cut": 1}}
        >>> lacking_in_words(agents)
        '3 of 10 responses were cut off, 1 is empty'
    """
    counts = [(agent.get("n_responses", 0), agent.get("lacking") or {}) for agent in agents]
    if only_most and not any(lacks_most(*each) for each in counts):
        return ""
    clauses = list[str]()
    for lack, verbs in _LACKS.items():
        if n := sum(lacking.get(lack, 0) for _, lacking in counts):
            of = "" if clauses else f" of {quantity(sum(n for n, _ in counts), 'response')}"
            clauses.append(f"{n}{of} {verbs[n > 1]}")
    return ", ".join(clauses)


def lacks_most(n_responses: int, lacking: Mapping[str, int]) -> bool:
    """Returns whether most responses of an agent lack an answer or a part of it."""
    return 2 * sum(lacking.values()) > n_responses


def is_unlike(measurement: Measurement) -> bool:
    """Returns whether most answers have several words, and few are equal: such answers are compared by meaning."""
    n_responses = sum(said.n_responses for said in measurement.agents.values())
    n_answers = len(measurement.representatives)
    n_long = sum(len(text.split()) > 2 for text in measurement.representatives)
    return (
        2 * n_long > n_answers > 2
        and 3 * n_answers > n_responses
        and measurement.proposals.calls is None
    )


def coe_in_words(measurement: Measurement, *, with_parts: bool = False) -> str:
    """Returns CoE, and its parts if asked for."""
    parts = parts_in_words(measurement.aleatoric, measurement.epistemic) if with_parts else ""
    return f"CoE {measurement.coe:.3f}{parts}"


def parts_in_words(aleatoric: float, epistemic: float) -> str:
    """Returns the parts of CoE in parentheses; a command that shows them itself leaves them out."""
    return f" (aleatoric {aleatoric:.3f} within models, epistemic {epistemic:.3f} between models)"


def decomposition(*, coe: float, aleatoric: float, epistemic: float) -> str:
    """Returns CoE as the sum of its parts, with the unit.

    Example:
        >>> decomposition(coe=0.75, aleatoric=0.5, epistemic=0.25)
        '0.750 = aleatoric 0.500 + epistemic 0.250 nats'
    """
    return f"{coe:.3f} = aleatoric {aleatoric:.3f} + epistemic {epistemic:.3f} nats"


def _claim(distribution: Mapping[str, float], support: Mapping[str, float]) -> _Claim:
    (text, share), *others = rank_texts(distribution.items())
    if share >= MOSTLY:
        return _Claim(False, bool(others), (text,))
    answers = tuple(text for text, _ in rank_texts((text, support[text]) for text in distribution))
    return _Claim(True, False, answers)


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
    return replace(
        measurement,
        representatives=tuple(map(action_in_words, measurement.representatives)),
        tied=tuple(map(action_in_words, measurement.tied)),
        agents={
            name: replace(
                own,
                distribution={
                    action_in_words(text): share for text, share in own.distribution.items()
                },
            )
            for name, own in measurement.agents.items()
        },
    )


def _predicate(claim: _Claim, n: int, verbs: tuple[str, str]) -> str:
    is_one = n == 1
    if claim.is_split:
        return f"{'is' if is_one else 'are'} split {_between(claim.answers)}"
    kind = answer_kind(claim.answers[0])
    mostly = "mostly " if claim.is_mostly else ""
    if kind == "refusal":
        return (
            f"{mostly}{'declines' if is_one else 'decline'} to answer ({_quote(claim.answers[0])})"
        )
    if claim.answers[0] == NO_CALL and verbs == _PROPOSE:
        return f"{mostly}{verbs[0] if is_one else verbs[1]} to call nothing"
    return f"{mostly}{verbs[0] if is_one else verbs[1]} {'nothing' if kind == 'empty' else _quote(claim.answers[0])}"


def _between(answers: Sequence[str]) -> str:
    if len(answers) > _MOST_SPLIT:
        return f"among {len(answers)} answers"
    return f"between {_listed([_named(text) for text in answers])}"


def _named(text: str) -> str:
    kind = answer_kind(text)
    return (
        "saying nothing"
        if kind == "empty"
        else f"declining ({_quote(text)})"
        if kind == "refusal"
        else _quote(text)
    )


def _lead(
    measurement: Measurement,
    support: Mapping[str, float],
    counts: Mapping[_Claim, int],
    shown: Sequence[str],
) -> str:
    """Returns a clause about a tied lead, or the leading answer where the numbers of agents do not show it."""
    if tied := measurement.tied:
        if set(tied) <= set(shown):
            return ": a tie"
        others = [f"{len(tied) - _MOST_SPLIT} more"] if len(tied) > _MOST_SPLIT else []
        return f": {_listed([*map(_named, tied[:_MOST_SPLIT]), *others])} tie"
    leading, share = rank_texts(support.items())[0]
    behind = Counter[str]()
    for claim, n in counts.items():
        if not claim.is_split:
            behind[claim.answers[0]] += n
    hidden = len(counts) > 1 and not behind[leading]
    if hidden or any(n >= behind[leading] for text, n in behind.items() if text != leading):
        return f"; {_named(leading)} leads with {share:.0%}"
    return ""


def _listed(parts: Sequence[str]) -> str:
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def _number(n: int) -> str:
    return _WORDS[n] if n < len(_WORDS) else str(n)


def _quote(text: str) -> str:
    # a link or an image of Markdown needs "](" on one line: chat interfaces would fetch an image at once
    line = for_prompt(text.replace('"', "'"), limit=_MAX_CHARS).replace("](", "] (")
    return f'"{line.rstrip(" .") or line}"'


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
    values = [
        f"{nothing if each['value'] is None else _short(each['value'])} ({', '.join(each['agents'])})"
        for each in candidates[keys[0]]
    ]
    if (n_more := len(values) - _MOST_VALUES) > 0:
        values[_MOST_VALUES:] = [f"{n_more} more"]
    who = "They disagree about" if n_agents > 1 else "It hesitates about"
    return f"{who} {what}: {', '.join(values[:-1])}{' or ' if len(values) > 1 else ''}{values[-1]}."


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"
