"""Owns the first sentences of the page: how many answers are right, and how many wrong ones look certain."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from coe_agents.policy.measurement import DEFAULT_ALEATORIC_THRESHOLD, DEFAULT_EPISTEMIC_THRESHOLD
from coe_agents.text import quantity


def summarize(questions: Mapping[str, Sequence[Any]], figures: Mapping[str, Any]) -> list[str]:
    """Returns plain sentences on the group's answers.

    `questions` are the columns of `Rows`, and `figures` is what `report` returns on the same questions.
    """
    n = figures["n_scored"]
    if not n:
        return ["No answer could be judged."]
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
    aleatoric, epistemic, correct = (
        np.array([questions[name][place] for place in judged], dtype=np.float64)
        for name in ("aleatoric", "epistemic", "correct")
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
    return facts


def _percent(share: float) -> str:
    return f"{100 * share:.0f}\N{NO-BREAK SPACE}%"
