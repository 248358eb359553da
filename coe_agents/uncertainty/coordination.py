"""Owns Algorithm 1: sharpening each agent's distribution, moving weight to the surer agents, until CoE converges."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from coe_agents.checks import integer, number, require
from coe_agents.uncertainty import _checks
from coe_agents.uncertainty._checks import FloatArray
from coe_agents.uncertainty.collaborative import decompose
from coe_agents.uncertainty.divergences import Kernel, kernel
from coe_agents.uncertainty.entropies import shannon
from coe_agents.uncertainty.solvers import Solver, greedy_step, solver_named

_NO_FACTOR = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Coordination:
    """Where Algorithm 1 ended, and how it got there.

    Attributes:
        distributions: The agents' last distributions, shape `(n_agents, n_clusters)`.
        weights: Their last weights, shape `(n_agents,)`.
        coe: The last Collaborative Entropy.
        initial_coe: The one before the first iteration.
        n_iterations: How many iterations were run.
        trajectory: CoE after each iteration, from the initial one: `n_iterations + 1` values.
        converged: Whether the last change was below epsilon; False where the iterations ran out.
    """

    distributions: FloatArray
    weights: FloatArray
    coe: float
    initial_coe: float
    n_iterations: int
    trajectory: tuple[float, ...]
    converged: bool


def coordinate(
    distributions: npt.ArrayLike,
    *,
    weights: npt.ArrayLike | None = None,
    divergence: str = "kl",
    epsilon: float = 1e-6,
    max_iterations: int = 10,
    solver: str | Solver = "greedy",
) -> Coordination:
    """Runs the coordination heuristic (Algorithm 1) on one question.

    Iteration 0 is the initial state. Iteration t sharpens every agent's distribution of t - 1 (step 2a, the solver),
    then multiplies each weight by a factor of its agent's new semantic entropy and renormalises (step 2b), then
    computes CoE; it stops when CoE moved by less than `epsilon`. Convergence means that CoE no longer changes, not that
    it is low, and it may have *risen*: an agent with a slight preference disagrees more once its distribution is sharp
    (the last example).

    | solver     | step 2a                                             | factor in step 2b            |
    |------------|-----------------------------------------------------|------------------------------|
    | "greedy"   | all mass to the top cluster, ties share it (eq. 9)  | 1 - SE, literally eq. 10     |
    | "softmax"  | a natural-gradient step of 0.5 on softmax logits    | 1 - SE / log(n_clusters)     |
    | a callable | its own                                             | the same                     |

    The literal algorithm never moves the weights: after its first step every SE is 0 and every factor 1, so it ends at
    the second iteration at the latest. A row whose top clusters tie is the mean of the sharp rows that would break the
    tie, none of which moves a weight, and so keeps its weight, too. The other factor is in [0, 1] where 1 - SE could be
    negative; where all of them are 0, or there is one cluster, weights stay. An agent whose distribution is uniform has
    factor 0 and loses its weight to the others.

    Args:
        distributions: Shape `(n_agents, n_clusters)`; rows sum to 1.
        weights: Initial weights, shape `(n_agents,)`, summing to 1; None: 1 / n_agents each, as in the paper.
        divergence: As in `collaborative_entropy`; Wasserstein is over the 0/1 ground metric. It changes CoE and when
            the iterations stop, not the steps.
        epsilon: Above 0; the change of CoE, in the divergence's unit, below which the iterations stop.
        max_iterations: At least 1; at it, the last state is returned with `converged=False`.
        solver: A name from the table; "package.module:name", whose code is run; or a callable that takes the
            distributions and returns the next distributions, shape `(n_agents, n_clusters)`.

    Returns:
        The last distributions and weights, and the trajectory of CoE. Distributions that are certain from the start
        change nothing: one iteration.

    Raises:
        TypeError: An argument is of a wrong kind.
        ValueError: `distributions` does not have two dimensions, a row is not a distribution, the weights do not fit, a
            name is not known, `epsilon` or `max_iterations` is too small, or a solver returned no distributions.
        ConfigurationError: The module of a solver cannot be imported.

    Agents that agree end at 0, the others at their irreducible disagreement (Theorem 3):

        >>> coordinate([[0.6, 0.4], [0.7, 0.3]]).coe
        0.0
        >>> apart = coordinate([[0.8, 0.2, 0.0], [0.3, 0.0, 0.7]])
        >>> round(apart.coe, 4), apart.n_iterations
        (0.6931, 2)

    An undecided agent, made sharp, becomes an opponent, and CoE rises:

        >>> raised = coordinate([[0.51, 0.49], [0.0, 1.0]])
        >>> round(raised.initial_coe, 4), round(raised.coe, 4)
        (0.5678, 0.6931)
    """
    rows = _checks.rows(distributions, "distributions", min_ndim=2)
    must = '"distributions" must have shape (n_agents, n_clusters)'
    require(rows.ndim == 2, must, rows.shape, "Call once per question")
    agent_weights = _checks.weights(weights, rows.shape)
    _, n_clusters = rows.shape
    measure = kernel(divergence, None, n_clusters)
    smallest = number(
        epsilon, '"epsilon"', above=0, advice="Pass a small change of CoE, such as 1e-6"
    )
    most = integer(max_iterations, '"max_iterations"', least=1, advice="Pass a count such as 3")
    step = solver_named(solver) if isinstance(solver, str) else solver
    if not callable(step):
        raise TypeError(
            f'"solver" must be a name or a callable; got {step!r}. Pass "greedy" or "softmax"'
        )

    trajectory = [_total(rows, agent_weights, measure)]
    converged = False
    while not converged and len(trajectory) <= most:
        stepped = _checks.rows(step(rows.copy()), "solver(distributions)", min_ndim=2)
        must = f"a solver must return distributions of shape {rows.shape}"
        require(stepped.shape == rows.shape, must, stepped.shape, "Return one row per agent")
        rows = stepped
        if step is not greedy_step:  # after that one every factor 1 - SE is 1
            agent_weights = _reweight(agent_weights, rows)
        trajectory.append(_total(rows, agent_weights, measure))
        converged = abs(trajectory[-1] - trajectory[-2]) < smallest
    return Coordination(
        distributions=rows,
        weights=agent_weights,
        coe=trajectory[-1],
        initial_coe=trajectory[0],
        n_iterations=len(trajectory) - 1,
        trajectory=tuple(trajectory),
        converged=converged,
    )


def _total(rows: FloatArray, weights: FloatArray, measure: Kernel) -> float:
    return float(decompose(rows, weights, measure).total)


def _reweight(weights: FloatArray, rows: FloatArray) -> FloatArray:
    """Step 2b: w_i times 1 - SE_i / log(n_clusters), normalised."""
    n_clusters = rows.shape[1]
    if n_clusters == 1:
        return weights
    factors = 1.0 - shannon(rows) / np.log(n_clusters)
    # the entropy of a uniform row differs from log(n_clusters) by rounding, which must not become a weight
    factors = np.where(factors < _NO_FACTOR, 0.0, factors)
    products = weights * factors
    return products / products.sum() if products.sum() > 0.0 else weights
