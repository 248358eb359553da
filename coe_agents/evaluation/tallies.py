"""Owns the tally behind every ranking metric: right and wrong answers by group of equal uncertainty.

All metrics are formulas over a `Tally`, whose leading axis holds resamples. So the figure and its bootstrap interval
come from the same code, and rows that tie can never be told apart by their order.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]


class Tally(NamedTuple):
    """Counts by group of equal uncertainty, the most certain group first; shape `(n_resamples, n_groups)` each."""

    answers: IntArray
    right: IntArray


RankingMetric = Callable[[Tally], FloatArray]
"""From a tally to one value per resample."""


class Ranking:
    """The order in which an uncertainty ranks answers, ready to tally any resample of them.

    Args:
        correct: Shape `(n,)`.
        uncertainty: Shape `(n,)`; higher = less sure.
    """

    def __init__(self, correct: npt.ArrayLike, uncertainty: npt.ArrayLike) -> None:
        right, scores = checked(correct, uncertainty, name="uncertainty")
        self._order = np.argsort(scores, kind="stable")
        ordered = scores[self._order]
        self._starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
        self._right = right[self._order]

    def tally(self, counts: IntArray | None = None) -> Tally:
        """Tallies the answers, or resamples in which row i stands `counts[:, i]` times."""
        drawn = np.ones((1, self._right.size), dtype=np.int64) if counts is None else counts[:, self._order]
        answers = np.add.reduceat(drawn, self._starts, axis=1)
        return Tally(answers, np.add.reduceat(drawn * self._right, self._starts, axis=1))


def area_under_roc(tally: Tally) -> FloatArray:
    """P(wrong less sure than right) + P(tie) / 2; NaN where all are right or all are wrong."""
    right_before = tally.right.cumsum(axis=1) - tally.right
    wrong = tally.answers - tally.right
    wins = (wrong * (right_before + tally.right / 2.0)).sum(axis=1)
    pairs = wrong.sum(axis=1) * tally.right.sum(axis=1)
    return np.asarray(np.divide(wins, pairs, where=pairs > 0, out=np.full(wins.shape, np.nan)))


def area_under_accuracy(tally: Tally) -> FloatArray:
    """Mean over k of the expected accuracy of the k most certain.

    Within a group of g after N answers with C right, sum_j (C + r j) / (N + j) = g r + (C - r N) (H(N + g) - H(N)) with
    the group's accuracy r and the harmonic numbers H.
    """
    before, right_before, rate = _before(tally)
    total = int(tally.answers[0].sum())
    harmonic = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, total + 1))])
    spans = harmonic[before + tally.answers] - harmonic[before]
    sums = tally.right + (right_before - rate * before) * spans
    return np.asarray(sums.sum(axis=1) / total)


def accuracy_at(tally: Tally, retention: float) -> FloatArray:
    """Expected accuracy of the ceil(retention n) most certain."""
    total = int(tally.answers[0].sum())
    kept = max(1, int(np.ceil(retention * total - 1e-9)))
    before, right_before, rate = _before(tally)
    last = (before + tally.answers >= kept).argmax(axis=1)[:, None]
    at = [np.take_along_axis(values, last, axis=1)[:, 0] for values in (before, right_before, rate)]
    return np.asarray((at[1] + at[2] * (kept - at[0])) / kept)


def _before(tally: Tally) -> tuple[IntArray, IntArray, FloatArray]:
    """Answers and right answers before each group, and the group's accuracy (0 where a resample has none of it)."""
    rate = np.divide(tally.right, tally.answers, where=tally.answers > 0, out=np.zeros(tally.answers.shape))
    return tally.answers.cumsum(axis=1) - tally.answers, tally.right.cumsum(axis=1) - tally.right, rate


def checked(correct: npt.ArrayLike, values: npt.ArrayLike, *, name: str) -> tuple[BoolArray, FloatArray]:
    """Returns `correct` as booleans and `values` as finite numbers, equally many and at least one."""
    right, numbers = np.asarray(correct), np.asarray(values)
    if right.dtype.kind not in "biuf" or not np.isin(right, (0, 1)).all():
        raise ValueError(
            f'"correct" must hold True and False (or 1 and 0) only; it holds {_strange(right)!r}. '
            "Leave out, and count, rows whose correctness is not known"
        )
    if numbers.dtype.kind not in "biuf" or not np.isfinite(numbers).all():
        raise ValueError(
            f'"{name}" must hold finite numbers only; it holds {_strange(numbers)!r}. '
            "Leave out, and count, rows that have none"
        )
    if right.ndim != 1 or right.shape != numbers.shape or right.size == 0:
        raise ValueError(
            f'"correct" and "{name}" must be equally long and not empty; their shapes are {right.shape} and '
            f"{numbers.shape}. Pass one value of each per answer"
        )
    return right.astype(np.bool_), numbers.astype(np.float64)


def _strange(array: npt.NDArray[Any]) -> object:
    if array.dtype.kind not in "biuf":
        return array.dtype.name
    wrong = ~np.isfinite(array) | ~np.isin(array, (0, 1))
    return array[~np.isfinite(array)][0].item() if not np.isfinite(array).all() else array[wrong][0].item()
