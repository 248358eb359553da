"""Owns the tally behind every ranking metric: right and wrong answers by group of equal uncertainty.

All metrics are formulas over a `Tally`, whose leading axis holds resamples. So the figure and its bootstrap interval
come from the same code, and rows that tie can never be told apart by their order.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]
CountArray = npt.NDArray[np.int32]
"""Half the memory of an `IntArray`; two billion rows are enough."""


class Tally(NamedTuple):
    """Running counts behind each group of equal uncertainty, the most certain group first.

    Shape `(n_resamples, n_groups + 1)` each; the first column is 0, the last counts all.
    """

    answers: CountArray
    right: CountArray


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
        order = np.argsort(scores, kind="stable")
        ordered = scores[order]
        starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1], [True]]))
        self._order, self._starts = order.astype(np.int32), starts.astype(np.int32)
        self._right = right[order]

    def ranks_like(self, other: "Ranking") -> bool:
        """Whether another ranking of the same answers has the same order and ties, and so the same tallies."""
        return np.array_equal(self._starts, other._starts) and np.array_equal(self._order, other._order)

    def tally(self, counts: CountArray | None = None) -> Tally:
        """Tallies the answers, or resamples in which row i stands `counts[:, i]` times."""
        n = self._right.size
        drawn = np.ones((1, n), dtype=np.int32) if counts is None else counts.take(self._order, axis=1)
        return Tally(self._running(drawn), self._running(drawn * self._right))

    def _running(self, drawn: CountArray) -> CountArray:
        sums = np.zeros((len(drawn), self._right.size + 1), dtype=np.int32)
        np.cumsum(drawn, axis=1, out=sums[:, 1:])
        return sums if self._starts.size == sums.shape[1] else sums.take(self._starts, axis=1)


def area_under_roc(tally: Tally) -> FloatArray:
    """P(wrong less sure than right) + P(tie) / 2; NaN where all are right or all are wrong."""
    wrong = tally.answers - tally.right
    # in doubles, which hold every such integer: the sum is exact
    wins = np.einsum("rg,rg->r", np.diff(wrong), tally.right[:, 1:] + tally.right[:, :-1], dtype=np.float64) / 2.0
    pairs = wrong[:, -1].astype(np.float64) * tally.right[:, -1]
    return np.asarray(np.divide(wins, pairs, where=pairs > 0, out=np.full(wins.shape, np.nan)))


def area_under_accuracy(tally: Tally) -> FloatArray:
    """Mean over k of the expected accuracy of the k most certain.

    Within a group of g after N answers with C right, sum_j (C + r j) / (N + j) = g r + (C - r N) (H(N + g) - H(N)) with
    the group's accuracy r and the harmonic numbers H.
    """
    rate = np.diff(tally.right) / np.maximum(np.diff(tally.answers), 1)
    n = int(tally.answers[0, -1])
    spans = np.diff(_harmonic_numbers(n).take(tally.answers))
    excess = tally.right[:, :-1] - rate * tally.answers[:, :-1]
    return np.asarray((tally.right[:, -1] + np.einsum("rg,rg->r", excess, spans)) / n)


def accuracy_at(tally: Tally, retention: float) -> FloatArray:
    """Expected accuracy of the ceil(retention n) most certain."""
    kept = max(1, int(np.ceil(retention * int(tally.answers[0, -1]) - 1e-9)))
    wanted = np.int32(kept)  # of another type, the search would convert all rows
    last = np.array([[row.searchsorted(wanted)] for row in tally.answers])
    (before, right_before), (after, right_after) = (
        [np.take_along_axis(counts, place, axis=1)[:, 0] for counts in tally] for place in (last - 1, last)
    )
    rate = (right_after - right_before) / (after - before)
    return np.asarray((right_before + rate * (kept - before)) / kept)


@lru_cache(maxsize=1)
def _harmonic_numbers(n: int) -> FloatArray:
    """H(0), ..., H(n)."""
    return np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, n + 1))])


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
