"""Owns the single-model baseline that is chosen in advance: the best agent by itself, never picked in hindsight."""

from collections.abc import Mapping

import numpy as np

from coe_agents.evaluation.metrics import auroc
from coe_agents.evaluation.tallies import BoolArray, FloatArray


def best_single_model(entropies: Mapping[str, FloatArray], correct: BoolArray, halves: BoolArray) -> FloatArray:
    """The semantic entropy of the agent whose entropy told wrong answers from right ones best on the *other* half.

    Args:
        entropies: Each agent's semantic entropies, shape `(n,)`; NaN where it did not respond, which rules it out.
        correct: Shape `(n,)`: whether the group's answer was right.
        halves: Shape `(n,)`: the half that each question belongs to.

    Returns:
        Shape `(n,)`, in nats; higher = less sure. All NaN where no agent responded everywhere, or a half has only
        right or only wrong answers, so that nothing can be chosen on it.
    """
    score = np.full(correct.size, np.nan)
    whole = {name: values for name, values in entropies.items() if not np.isnan(values).any()}
    for half in (False, True):
        other = halves != half
        if not whole or not other.any() or correct[other].all() or not correct[other].any():
            return np.full(correct.size, np.nan)
        rated = {name: auroc(correct=correct[other], uncertainty=values[other]) for name, values in whole.items()}
        score[~other] = whole[max(rated, key=lambda name: rated[name])][~other]
    return score
