"""Owns learning a gate and agents' weights from judged questions; scikit-learn fits, NumPy applies."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from coe_agents.evaluation.metrics.tallies import BoolArray, FloatArray
from coe_agents.evaluation.scoring.correctness import Criterion, Prediction, judge
from coe_agents.evaluation.scoring.statistics import Statistics
from coe_agents.policy import Measurement
from coe_agents.policy.gate import FEATURES, LinearGate, features

STRENGTH, LEAN = 0.005, 3.0
"""The penalty's strength, inverse, and how many times lighter it is on CoE, so that it draws the gate towards CoE.

Chosen so that the gate falls hardly short of CoE where the agents are equals (`benchmarks/learned_gate.py`)."""


def fit_gate(
    measurements: Sequence[Measurement], correct: Sequence[bool] | BoolArray, *, strength: float = STRENGTH
) -> LinearGate:
    """Fits a logistic regression of "the answer is wrong" on standardised `features`.

    Args:
        measurements: Of the calibration questions; those that lack one of the agents are left out.
        correct: Whether each answer was right.
        strength: The inverse of the L2 penalty's weight, as scikit-learn's `C`. The default is a strong penalty, which
            also draws the estimated probabilities towards the share of wrong answers: they rank, and a threshold on
            them is to be calibrated.

    Raises:
        ImportError: scikit-learn is not installed.
        ValueError: There are not both right and wrong answers among the questions that have all agents.
    """
    try:
        from sklearn.linear_model import LogisticRegression
    except ImportError as error:
        raise ImportError("A learned gate needs scikit-learn. Install: pip install 'coe-agents[evaluation]'") from error
    agents = tuple(sorted({name for measurement in measurements for name in measurement.agents}))
    whole = [set(agents) <= measurement.agents.keys() for measurement in measurements]
    wrong = ~np.asarray(correct, dtype=np.bool_)[whole]
    if not wrong.any() or wrong.all():
        raise ValueError(
            f'"correct" must hold right and wrong answers to questions with all {len(agents)} agents; {wrong.size} '
            f"such questions came, {int(wrong.sum())} of them wrong. Add questions"
        )
    rows = np.array([features(m, agents) for m, has_all in zip(measurements, whole, strict=True) if has_all])
    means, scales = rows.mean(axis=0), rows.std(axis=0)
    scales[scales < 1e-12] = 1.0  # a feature that never changes
    scales[FEATURES.index("coe")] /= LEAN
    model = LogisticRegression(C=strength, max_iter=1000).fit((rows - means) / scales, wrong)
    return LinearGate(
        agents,
        tuple(means.tolist()),
        tuple(scales.tolist()),
        tuple(model.coef_[0].tolist()),
        float(model.intercept_[0]),
    )


def cross_fitted(
    measurements: Sequence[Measurement], correct: npt.ArrayLike, *, n_folds: int = 10, seed: int = 0
) -> FloatArray:
    """The uncertainty that a learned gate gives each question when it was fitted on the other folds.

    Args:
        measurements: All of the same agents.
        correct: Shape `(n,)`.
        n_folds: Into how many folds the questions are dealt at random, right and wrong ones apart.
        seed: Of the dealing.

    Returns:
        Shape `(n,)`: the estimated probability of a wrong answer, in [0, 1]; higher = less sure.

    Raises:
        ImportError: scikit-learn is not installed.
        ValueError: As `fit_gate`, or there are fewer right or wrong answers than folds.
    """
    right = np.asarray(correct, dtype=np.bool_)
    result = np.empty(right.size)
    for outside, inside in folds(right, n_folds=n_folds, seed=seed):
        gate = fit_gate([measurements[i] for i in outside], right[outside])
        result[inside] = [gate.uncertainty(measurements[i]) for i in inside]
    return result


def folds(correct: npt.ArrayLike, *, n_folds: int, seed: int) -> list[tuple[list[int], list[int]]]:
    """Deals questions into folds with equal shares of wrong answers: the rows outside and inside of each fold.

    With unequal shares a fold would be scored by a gate that has seen fewer errors the more there are in it, and the
    folds together would rank worse than each does.
    """
    from sklearn.model_selection import StratifiedKFold

    right = np.asarray(correct, dtype=np.bool_)
    dealt = StratifiedKFold(n_folds, shuffle=True, random_state=seed).split(right[:, None], right)
    return [(outside.tolist(), inside.tolist()) for outside, inside in dealt]


def cluster_verdicts(statistics: Statistics, criterion: Criterion) -> BoolArray:
    """Whether each cluster's most probable response is right, so that another choice of cluster can be judged.

    Args:
        statistics: Of one question.
        criterion: What cannot be said counts as wrong.

    Returns:
        Shape `(n_clusters,)`.
    """
    clusters = range(statistics.distributions.shape[1])
    predictions = [Prediction.of(statistics, cluster=cluster) for cluster in clusters]
    return np.array([bool(verdict) for verdict in judge(predictions, criterion)])


def agent_weights(own_correct: npt.ArrayLike) -> FloatArray:
    """Weights of the agents by how often each is right by itself, for the ensemble mean that picks the answer.

    The log-odds of the smoothed accuracy a = (right + 1) / (n + 2), at least 0, divided by their sum: the weights of
    the best vote of independent voters (Nitzan and Paroush, 1982). Uniform where no agent is right more often than not.

    Args:
        own_correct: Shape `(n, n_agents)`: whether the cluster that each agent itself favours was right.

    Returns:
        Shape `(n_agents,)`, summing to 1.

    >>> agent_weights([[True, False], [True, False], [True, True]]).round(3)
    array([1., 0.])
    """
    votes = np.asarray(own_correct, dtype=np.bool_)
    accuracy = (votes.sum(axis=0) + 1.0) / (len(votes) + 2.0)
    odds = np.maximum(np.log(accuracy / (1.0 - accuracy)), 0.0)
    return np.full(odds.size, 1.0 / odds.size) if not odds.any() else odds / odds.sum()
