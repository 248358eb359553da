"""Owns Algorithm 1 over a whole group of questions: where it ends, and whether its answers are right."""

from dataclasses import dataclass
from itertools import islice

import numpy as np

from coe_agents.evaluation import Prediction, ScoringSetup
from coe_agents.evaluation.scoring.correctness import judge, mean_verdict
from coe_agents.experiments.groups import JudgedGroup
from coe_agents.uncertainty import coordinate
from coe_agents.uncertainty.answers import leading_clusters

SOLVERS = ("greedy", "softmax")
"""The literal algorithm, and a smooth one that the paper allows in its place."""
MAX_ITERATIONS = {"greedy": 10, "softmax": 200}
"""The paper's bound for the literal algorithm; enough for the smooth one to converge."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Means over the questions.

    Attributes:
        before: CoE before the first iteration.
        after: CoE after the last one.
        n_iterations: How many were run.
        converged: The share of questions that stopped by epsilon.
        risen: The share of questions whose CoE rose.
        accuracy: Of the answers chosen with the last weights and distributions; where several share the lead, the
            share of them that is right.
    """

    before: float
    after: float
    n_iterations: float
    converged: float
    risen: float
    accuracy: float


def coordinated(
    group: JudgedGroup, setup: ScoringSetup, *, solver: str, divergence: str = "kl", epsilon: float = 1e-6
) -> Outcome:
    """Runs Algorithm 1 on every question of a group."""
    found = [
        coordinate(
            each.distributions,
            divergence=divergence,
            epsilon=epsilon,
            solver=solver,
            max_iterations=MAX_ITERATIONS[solver],
        )
        for each in group.statistics
    ]
    leading = [np.flatnonzero(leading_clusters(each.distributions, weights=each.weights)).tolist() for each in found]
    return Outcome(
        before=float(np.mean([each.initial_coe for each in found])),
        after=float(np.mean([each.coe for each in found])),
        n_iterations=float(np.mean([each.n_iterations for each in found])),
        converged=float(np.mean([each.converged for each in found])),
        risen=float(np.mean([each.coe > each.initial_coe + 1e-9 for each in found])),
        accuracy=_accuracy(group, leading, setup),
    )


def _accuracy(group: JudgedGroup, leading: list[list[int]], setup: ScoringSetup) -> float:
    """The mean share of these clusters' answers that is right; 0 where no verdict is known."""
    pairs = zip(group.statistics, leading, strict=True)
    verdicts = iter(judge([Prediction.of(each, cluster=own) for each, some in pairs for own in some], setup.criterion))
    return float(np.mean([mean_verdict(list(islice(verdicts, len(some)))) or 0.0 for some in leading]))
