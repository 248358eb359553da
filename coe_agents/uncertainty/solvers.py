"""Owns step 2a of Algorithm 1: the ways to make each agent's distribution sharper, and finding one by name.

A solver takes the distributions, shape `(n_agents, n_clusters)`, and returns the next ones in the same shape.
"""

from collections.abc import Callable

import numpy as np

from coe_agents._removed import replacement_of
from coe_agents.extensions import NO_ENTRY_POINTS, did_you_mean, is_reference, load_extension
from coe_agents.uncertainty._checks import FloatArray
from coe_agents.uncertainty.ties import shares_lead

Solver = Callable[[FloatArray], FloatArray]


def greedy_step(distributions: FloatArray) -> FloatArray:
    """Puts all mass of each row on its most probable cluster (equation 9); the clusters of a tie share it equally.

    The paper does not say what a tie is; no cluster is preferred for its number. Probabilities closer than 1e-9 tie.

    >>> greedy_step(np.array([[0.2, 0.7, 0.1], [0.4, 0.2, 0.4]]))
    array([[0. , 1. , 0. ],
           [0.5, 0. , 0.5]])
    """
    leads = shares_lead(distributions)
    return np.asarray(leads / leads.sum(axis=1, keepdims=True))


def softmax_step(distributions: FloatArray, *, step_size: float = 0.5) -> FloatArray:
    """Takes one gradient step on each row's softmax logits z, down its semantic entropy.

    The gradient is taken in the metric of the distributions (Fisher's; a natural gradient), where it does not fade as a
    row sharpens: z_j <- z_j + step_size * (log p_j + SE), which is p <- p^(1 + step_size), normalised. So SE never
    rises, whatever the step size (its derivative by the exponent a is -a Var(log p)), a uniform row has no gradient and
    stays, order among clusters is kept, and clusters of probability 0 are left out and stay exactly 0.

    Args:
        distributions: Shape `(n_agents, n_clusters)`; rows sum to 1.
        step_size: Above 0. At 0.5, rows of 0.6 and 0.4 take about ten steps to converge within 1e-6 nats.

    >>> softmax_step(np.array([[0.6, 0.4], [0.5, 0.5]])).round(3)
    array([[0.648, 0.352],
           [0.5  , 0.5  ]])
    """
    return _softmax((1.0 + step_size) * _logits(distributions))


def solver_named(name: str) -> Solver:
    """Finds a solver: a built-in one, or "package.module:name"."""
    if name in BUILT_IN:
        return BUILT_IN[name]
    if instead := replacement_of("solver", name):
        raise ValueError(f'"solver" must not be "{name}", which was removed. {instead}')
    if is_reference(name):
        solver: Solver = load_extension("solver", name)
        return solver
    valid = ", ".join(f'"{each}"' for each in BUILT_IN)
    near = did_you_mean(name, BUILT_IN)
    raise ValueError(
        f'"solver" must be a known name, "package.module:name" or a callable; got {name!r}. '
        f"{near or NO_ENTRY_POINTS}. Choose one of {valid}, or pass a callable"
    )


def _logits(p: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.log(p)


def _softmax(logits: FloatArray) -> FloatArray:
    """Softmax of each row; exactly 0 where a logit is -inf."""
    from scipy.special import softmax

    return np.asarray(softmax(logits, axis=1))


BUILT_IN: dict[str, Solver] = {"greedy": greedy_step, "softmax": softmax_step}
