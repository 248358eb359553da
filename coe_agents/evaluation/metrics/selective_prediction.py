"""Owns the metrics of selective prediction: how well an uncertainty separates wrong answers from right ones.

In every metric rows that tie count as if in random order (their expected value), so the order of rows changes nothing.
`correct` may hold shares: a row of which a share c is right counts as weight c right and weight 1 - c wrong, at its one
uncertainty. Values of `uncertainty` tie where they are equal; `tallies.join_ties` makes those equal that differ by
rounding only.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from coe_agents.checks import number
from coe_agents.evaluation.metrics import tallies
from coe_agents.evaluation.metrics.tallies import FloatArray, Ranking

RETENTIONS = (0.8, 0.9, 0.95, 1.0)
"""The shares of answers, the most certain ones, whose accuracy is reported."""


class Curve(NamedTuple):
    """A curve over coverage; one point for each k = 1..n.

    Attributes:
        coverage: k / n, the share that is answered; the rejection rate is 1 - coverage.
        values: The expected accuracy, or risk, of the k most certain.
    """

    coverage: FloatArray
    values: FloatArray


def auroc(*, correct: npt.ArrayLike, uncertainty: npt.ArrayLike) -> float:
    """Area under the ROC curve, P(u_wrong > u_right) + P(u_wrong = u_right) / 2; *wrong* is the positive class.

    Args:
        correct: Shape `(n,)`; booleans, or numbers in [0, 1].
        uncertainty: Shape `(n,)`; higher = less sure.

    Returns:
        In [0, 1]: 1 if every wrong answer is less sure than every right one, 0.5 by chance. NaN where all answers are
        right or all are wrong, since there is nothing to separate.

    Raises:
        ValueError: The arguments differ in length, are empty, or hold something else.

    >>> auroc(correct=[True, True, False], uncertainty=[0.1, 0.5, 0.5])
    0.75
    >>> auroc(correct=[True, True], uncertainty=[0.1, 0.5])
    nan
    """
    tally = Ranking(correct, uncertainty).tally()
    return float(tallies.area_under_roc(tally)[0])


def aurac(*, correct: npt.ArrayLike, uncertainty: npt.ArrayLike) -> float:
    """Area under the accuracy-rejection curve: the mean over k = 1..n of the accuracy of the k most certain answers.

    Arguments and errors are as in `auroc`.

    Returns:
        In [0, 1]; 1.0 where all answers are right, whatever n. It depends on the accuracy as well as on the ranking;
        the paper's own figure of that name is another one: see `paper_area`.

    >>> round(aurac(correct=[True, False], uncertainty=[0.1, 0.9]), 4)  # (1 + 1/2) / 2
    0.75
    """
    tally = Ranking(correct, uncertainty).tally()
    return float(tallies.area_under_accuracy(tally)[0])


def rejection_accuracy(
    *, correct: npt.ArrayLike, uncertainty: npt.ArrayLike, retention: float
) -> float:
    """Accuracy of the ceil(retention n) most certain answers.

    Args:
        correct: Shape `(n,)`; booleans, or numbers in [0, 1].
        uncertainty: Shape `(n,)`; higher = less sure.
        retention: The share to keep, in (0, 1].

    Returns:
        In [0, 1].

    Raises:
        ValueError: `retention` is out of range, or as `auroc`.

    >>> rejection_accuracy(correct=[True, False, False, True], uncertainty=[0.1, 0.9, 0.5, 0.5], retention=0.5)
    0.75
    """
    number(retention, '"retention"', above=0, most=1, advice="Pass a share such as 0.8")
    tally = Ranking(correct, uncertainty).tally()
    [accuracies] = tallies.accuracies_at(tally, [retention])
    return float(accuracies[0])


def accuracy_rejection_curve(*, correct: npt.ArrayLike, uncertainty: npt.ArrayLike) -> Curve:
    """The expected accuracy of the k most certain answers, for each k = 1..n; its mean is `aurac`.

    Arguments and errors are as in `auroc`.

    >>> accuracy_rejection_curve(correct=[True, False], uncertainty=[0.1, 0.9]).values
    array([1. , 0.5])
    """
    tally = Ranking(correct, uncertainty).tally()
    sizes = np.diff(tally.answers[0])
    rate = np.diff(tally.right[0]) / sizes
    expected_right = np.repeat(rate, sizes).cumsum()
    k = np.arange(1, sizes.sum() + 1)
    return Curve(coverage=k / k.size, values=expected_right / k)


def risk_coverage_curve(*, correct: npt.ArrayLike, uncertainty: npt.ArrayLike) -> Curve:
    """The expected share of wrong answers among the k most certain, for each k = 1..n; its mean is 1 - `aurac`.

    Arguments and errors are as in `auroc`.

    >>> risk_coverage_curve(correct=[True, False], uncertainty=[0.1, 0.9])
    Curve(coverage=array([0.5, 1. ]), values=array([0. , 0.5]))
    """
    coverage, accuracy = accuracy_rejection_curve(correct=correct, uncertainty=uncertainty)
    return Curve(coverage, 1.0 - accuracy)


def paper_area(accuracies: FloatArray) -> FloatArray:
    """The paper's own "AURAC", 0.1 (a80 / 2 + a90 + a95 + a100 / 2), of the accuracies at `RETENTIONS`, by resample.

    It is the trapezoidal sum with one step of 0.1 throughout, and reproduces the cells of the paper's table; a perfect
    score over all-right answers has 0.3. Use it to compare with the paper, and `aurac` for anything else.
    """
    a80, a90, a95, a100 = accuracies
    return np.asarray(0.1 * (a80 / 2.0 + a90 + a95 + a100 / 2.0))
