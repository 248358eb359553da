"""Owns the first sentences of the page: how many answers are right, and what a threshold on CoE would give."""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

import numpy as np

from coe_agents.evaluation.metrics.tallies import FloatArray, join_ties
from coe_agents.policy.measurement import DEFAULT_ALEATORIC_THRESHOLD, DEFAULT_EPISTEMIC_THRESHOLD
from coe_agents.text import quantity

_COVERAGES = (0.25, 0.5, 0.75)
_RISKS = (0.2, 0.1, 0.05)
_APART = 0.04
"""The least difference in coverage between two thresholds that are both described."""


def summarize(questions: Mapping[str, Sequence[Any]], figures: Mapping[str, Any]) -> dict[str, list[str]]:
    """Returns plain sentences: "facts" on the group's answers, and what some "thresholds" would give.

    `questions` are the columns of `Rows`, and `figures` is what `report` returns on the same questions.
    """
    n = figures["n_scored"]
    if not n:
        return {"facts": ["No answer could be judged."], "thresholds": []}
    n_right = round(figures["accuracy"] * n, 1)
    facts = [f"The group is right on {n_right:g} of {quantity(n, 'question')} ({_percent(n_right / n)})."]
    if n_right != round(n_right):
        facts.append("A tie, or an answer whose labels differ, counts by the share that is right.")
    auroc, low, high = figures["scores"]["coe"]["auroc"]
    if auroc is not None:
        facts.append(
            f"CoE is higher for a wrong answer than for a right one in {_percent(auroc)} of pairs "
            f"({_percent(0.95)} interval {_percent(low)} to {_percent(high)}; chance is {_percent(0.5)})."
        )
    judged = [place for place, correct in enumerate(questions["correct"]) if correct is not None]
    coe, aleatoric, epistemic, correct = (
        np.array([questions[name][place] for place in judged], dtype=np.float64)
        for name in ("coe", "aleatoric", "epistemic", "correct")
    )
    given = np.array([questions["kind"][place] == "answer" for place in judged])
    low_both = (aleatoric <= DEFAULT_ALEATORIC_THRESHOLD) & (epistemic <= DEFAULT_EPISTEMIC_THRESHOLD)
    n_confident = int((given & low_both & (correct == 0)).sum())
    if n_confident:
        facts.append(
            f"{quantity(n_confident, 'wrong answer')} looked certain: both parts of CoE are low "
            f"(aleatoric at most {DEFAULT_ALEATORIC_THRESHOLD:g}, epistemic at most {DEFAULT_EPISTEMIC_THRESHOLD:g} "
            "nats). The list of questions begins with such answers."
        )
    return {"facts": facts, "thresholds": _describe_thresholds(join_ties(coe), given, correct)}


def _describe_thresholds(coe: FloatArray, given: FloatArray, correct: FloatArray) -> list[str]:
    values = np.unique(coe)
    behind = np.searchsorted(values, coe)
    n_given = np.bincount(behind, given).cumsum()
    n_wrong = np.bincount(behind, given * (1.0 - correct)).cumsum()
    chosen = {int(np.abs(n_given / coe.size - share).argmin()) for share in _COVERAGES}
    for risk in _RISKS:
        within = np.flatnonzero((n_given > 0) & (n_wrong <= risk * n_given))
        chosen.update(within[-1:].tolist())
    sentences, before = [], 0.0
    for place in sorted(chosen):
        count, wrong = int(n_given[place]), round(float(n_wrong[place]), 1)
        if count - before >= _APART * coe.size:
            before = count
            limit = _between(values[place], values[place + 1] if place + 1 < values.size else np.inf)
            sentences.append(
                f"Answering only where CoE is at most {limit} nats answers {_percent(count / coe.size)} of the "
                f"questions ({count}), of which {_percent(wrong / count)} are wrong ({wrong:g})."
            )
    if not ((n_given > 0) & (n_wrong <= _RISKS[0] * n_given)).any():
        sentences.append(f"No threshold leaves at most {_percent(_RISKS[0])} of the given answers wrong.")
    return sentences


def _between(value: float, above: float) -> str:
    """Returns the shortest number of at least two decimals that is at least `value` and below `above`."""
    for digits in range(2, 12):
        limit = ceil(round(value * 10**digits, 3)) / 10**digits
        if limit < above:
            return f"{limit:.{digits}f}"
    return f"{value:.12f}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f}\N{NO-BREAK SPACE}%"
