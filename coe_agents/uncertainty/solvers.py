"""Owns step 2a of Algorithm 1: the ways to make each agent's distribution sharper, and finding one by name.

A solver takes the distributions, shape `(n_agents, n_clusters)`, and returns the next ones in the same shape.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from coe_agents.extensions import NO_ENTRY_POINTS, did_you_mean, is_reference, load_extension
from coe_agents.uncertainty._checks import FloatArray, IntArray
from coe_agents.uncertainty.entropies import shannon
from coe_agents.uncertainty.ties import TIE, shares_lead

Solver = Callable[[FloatArray], FloatArray]
Objective = Callable[[FloatArray], FloatArray]
"""Entropies, shape `(n_points,)`, of offsets, shape `(n_dimensions, n_points)`."""

TRUST_RADIUS = 2.0


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


def genetic_step(distributions: FloatArray, *, seed: int = 0) -> FloatArray:
    """Lowers each row's semantic entropy by differential evolution of its logits inside a trust region.

    The logits of the clusters with mass, relative to the leading one's, may move by at most 2 in a step, so that the
    trajectory stays smooth. Seeded with the same seed for each row: equal rows stay equal, and results repeat. SE
    never rises. Clusters of equal probability stay equal, and the order of the clusters changes nothing.
    """
    return within_trust_region(distributions, partial(_evolve, seed=seed))


def within_trust_region(distributions: FloatArray, minimise: Callable[[Objective, int], FloatArray]) -> FloatArray:
    """Moves each row's logits by the offsets, in [-TRUST_RADIUS, TRUST_RADIUS], that `minimise` finds for its entropy.

    Clusters whose probabilities are closer than 1e-9 move together, so that a tie stays one; the sought offsets are in
    the order of falling probability, so that the order of the clusters changes nothing.

    Args:
        distributions: Shape `(n_agents, n_clusters)`; rows sum to 1.
        minimise: Takes the objective and the number of dimensions (one less than the different probabilities above 0,
            as the leading one's logit is held), and returns the offsets. A row that would become less sure stays as it
            is.
    """
    stepped = distributions.copy()
    for row in stepped:
        order = np.argsort(-row)
        order = order[row[order] > 0.0]
        groups = np.append(0, np.cumsum(-np.diff(row[order]) >= TIE))
        if groups[-1] == 0:
            continue
        objective = partial(_entropy_of, row[order], groups)
        offsets = np.asarray(minimise(objective, int(groups[-1])))[:, None]
        if objective(offsets)[0] <= shannon(row):
            row[order] = _moved(row[order], groups, offsets)[0]
    return stepped


def solver_named(name: str) -> Solver:
    """Finds a solver: a built-in one, or "package.module:name"."""
    if name in BUILT_IN:
        return BUILT_IN[name]
    reference = _WITH_A_PACKAGE.get(name, name)
    if is_reference(reference):
        solver: Solver = load_extension("solver", reference)
        return solver
    valid = ", ".join(f'"{each}"' for each in NAMES)
    near = did_you_mean(name, NAMES)
    raise ValueError(
        f'"solver" must be a known name, "package.module:name" or a callable; got {name!r}. '
        f"{near or NO_ENTRY_POINTS}. Choose one of {valid}, pass a callable"
    )


def _logits(p: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.log(p)


def _softmax(logits: FloatArray) -> FloatArray:
    """Softmax of each row; exactly 0 where a logit is -inf."""
    from scipy.special import softmax

    return np.asarray(softmax(logits, axis=1))


def _moved(row: FloatArray, groups: IntArray, offsets: FloatArray) -> FloatArray:
    """Rows, shape `(n_points, n_clusters)`: each group's logits but the first's moved by offsets `(., n_points)`."""
    return _softmax(_logits(row) + np.vstack([np.zeros(offsets.shape[1]), offsets])[groups].T)


def _entropy_of(row: FloatArray, groups: IntArray, offsets: FloatArray) -> FloatArray:
    return shannon(_moved(row, groups, offsets))


def _evolve(objective: Objective, n_dimensions: int, *, seed: int) -> FloatArray:
    from scipy.optimize import differential_evolution

    found = differential_evolution(
        objective,
        [(-TRUST_RADIUS, TRUST_RADIUS)] * n_dimensions,
        x0=np.zeros(n_dimensions),
        seed=seed,
        maxiter=20,
        popsize=8,
        polish=False,
        updating="deferred",
        vectorized=True,
    )
    return np.asarray(found.x)


BUILT_IN: dict[str, Solver] = {"greedy": greedy_step, "softmax": softmax_step, "genetic": genetic_step}
_WITH_A_PACKAGE = {"bayesian": "coe_agents.backends.bayesian_optimization:bayesian_step"}
"""Solvers of ours that need a further package, and are imported where they are named."""
NAMES = (*BUILT_IN, *_WITH_A_PACKAGE)
