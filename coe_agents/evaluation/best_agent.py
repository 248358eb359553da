"""Owns the single-model baseline that is chosen in advance: the best agent by itself, never picked in hindsight."""

from collections.abc import Mapping

import numpy as np

from coe_agents.evaluation.metrics import auroc
from coe_agents.evaluation.tallies import BoolArray, FloatArray, join_ties
from coe_agents.uncertainty.answers import TIE


def best_single_model(entropies: Mapping[str, FloatArray], correct: FloatArray, halves: BoolArray) -> FloatArray:
    """The semantic entropy of the agent whose entropy told wrong answers from right ones best on the *other* half.

    Where several agents tie as the best, it is the mean of their entropies, so that no name and no order chooses.

    Args:
        entropies: By agent, shape `(n,)` each; NaN where it did not respond, which rules it out.
        correct: Shape `(n,)`, in [0, 1]: whether the group's answer was right.
        halves: Shape `(n,)`: the half that each question belongs to.

    Returns:
        Shape `(n,)`, in nats; higher = less sure. All NaN where no agent responded everywhere, or a half has only
        right or only wrong answers, so that nothing can be chosen on it.
    """
    score = np.full(correct.size, np.nan)
    whole = [join_ties(values) for values in entropies.values() if not np.isnan(values).any()]
    for half in (False, True):
        other = halves != half
        if not whole or not other.any():
            return np.full(correct.size, np.nan)
        rated = np.array([auroc(correct=correct[other], uncertainty=values[other]) for values in whole])
        if np.isnan(rated).any():
            return np.full(correct.size, np.nan)
        best = [values for values, rate in zip(whole, rated, strict=True) if rate > rated.max() - TIE]
        score[~other] = np.mean(best, axis=0)[~other]
    return score
