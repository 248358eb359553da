"""Owns ties: which values share the lead, up to rounding."""

import numpy as np

from coe_agents.uncertainty._checks import BoolArray, FloatArray

TIE = 1e-9
"""Ensemble means closer than this tie, so that rounding chooses no answer."""


def shares_lead(p: FloatArray) -> BoolArray:
    """Whether each value shares the lead of the last axis: it lies less than 1e-9 below the highest.

    Of an ensemble mean, more than one True is a tie, which nothing but trust (unequal weights) may break.

    "The cluster with the lowest associated CoE" (system overview) is read as the cluster of the highest ensemble mean,
    which is the one of least surprisal: under the Kullback-Leibler divergence and uniform weights CoE is the mean of
    these surprisals. That is an interpretation; elsewhere the paper says that CoE is not an output selector.

    >>> shares_lead(np.array([0.5, 0.5, 0.0]))
    array([ True,  True, False])
    """
    return np.asarray(p > p.max(axis=-1, keepdims=True) - TIE)
