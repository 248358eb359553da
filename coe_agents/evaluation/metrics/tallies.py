"""Owns the tally behind every ranking metric: right and wrong answers by group of equal uncertainty.

All metrics are formulas over a `Tally`, whose leading axis holds resamples. So the figure and its bootstrap interval
are computed by the same code, and the order of tied rows never matters.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from coe_agents.uncertainty.ties import TIE

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]
CountArray = npt.NDArray[np.int32]
"""Half the memory of an `IntArray`; two billion rows are enough."""


class Tally(NamedTuple):
    """Running counts behind each group of equal uncertainty, the most certain group first.

    Shape `(n_resamples, n_groups + 1)` each; the first column is 0, the last counts all. `right` holds integers where
    every verdict is 0 or 1.
    """

    answers: CountArray
    right: CountArray | FloatArray


class Ranking:
    """The order in which an uncertainty ranks answers, ready to tally any resample of them.

    Args:
        correct: Shape `(n,)`, in [0, 1].
        uncertainty: Shape `(n,)`; higher = less sure. Only equal values tie: `join_ties` makes them equal.
    """

    def __init__(self, correct: npt.ArrayLike, uncertainty: npt.ArrayLike) -> None:
        right, scores = check_shares(correct, uncertainty)
        order = np.argsort(scores, kind="stable")
        ordered = scores[order]
        self._order = order.astype(np.int32)
        is_first = np.diff(ordered, prepend=-np.inf) > 0.0
        self._right = right[order]
        is_whole = (right == 0) | (right == 1)
        if is_whole.all():
            self._right = self._right.astype(np.bool_)
        starts = np.flatnonzero(is_first)
        self._runs = _join_equal(starts, self._right)

    def tally(self, counts: npt.NDArray[np.integer[Any]] | None = None) -> Tally:
        """Tallies the answers, or resamples that hold row i `counts[:, i]` times.

        Neighbouring groups are one where all of their answers are equally right: the order of such answers changes no
        metric, so that they may as well tie.
        """
        if counts is None:
            counts = np.ones((1, self._right.size), dtype=np.int32)
        drawn = counts.take(self._order, axis=1)
        drawn_right = drawn * self._right
        kind = np.int32 if self._right.dtype == np.bool_ else np.float64
        sizes = np.add.reduceat(drawn, self._runs, axis=1, dtype=np.int32)
        right_sizes = np.add.reduceat(drawn_right, self._runs, axis=1, dtype=kind)
        return Tally(_running(sizes), _running(right_sizes))


def _join_equal(starts: IntArray, right: npt.NDArray[Any]) -> IntArray:
    """Returns where groups of answers start, neighbours joined where the answers of both all are equally right."""
    lowest = np.minimum.reduceat(right, starts)
    highest = np.maximum.reduceat(right, starts)
    is_even = lowest == highest

    # of each group but the first: whether it joins the one before it
    are_both_even = is_even[1:] & is_even[:-1]
    are_alike = lowest[1:] == lowest[:-1]
    joins = are_both_even & are_alike
    is_start = np.append(True, ~joins)
    return np.asarray(starts[is_start])


def _running(numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Returns the running sums of each row, behind a 0."""
    sums = numbers.cumsum(axis=1, dtype=numbers.dtype)
    zeros = np.zeros((len(sums), 1), dtype=sums.dtype)
    return np.concatenate([zeros, sums], axis=1)


def area_under_roc(tally: Tally) -> FloatArray:
    """P(wrong less sure than right) + P(tie) / 2; NaN where all are right or all are wrong."""
    wrong = tally.answers - tally.right
    wrong_in_group = np.diff(wrong)

    # a wrong answer wins against all right ones before its group, and half of the time against those in it
    right_before = tally.right[:, :-1]
    right_after = tally.right[:, 1:]
    twice_right = right_after + right_before

    # in doubles, which hold every integer that is possible here: of whole verdicts the sum is exact
    twice_wins = np.einsum("rg,rg->r", wrong_in_group, twice_right, dtype=np.float64)
    wins = twice_wins / 2.0
    all_wrong = wrong[:, -1].astype(np.float64)
    pairs = all_wrong * tally.right[:, -1]
    areas = np.full(wins.shape, np.nan)
    np.divide(wins, pairs, where=pairs > 0, out=areas)
    return areas


def area_under_accuracy(tally: Tally) -> FloatArray:
    """Mean over k of the expected accuracy of the k most certain.

    Within a group of g after N answers with C right, sum_j (C + r j) / (N + j) = g r + (C - r N) (H(N + g) - H(N)) with
    the group's accuracy r and the harmonic numbers H.
    """
    n = int(tally.answers[0, -1])
    answers_before = tally.answers[:, :-1]
    right_before = tally.right[:, :-1]
    sizes = np.diff(tally.answers)
    # a resample may hold no answer of a group, which then adds nothing
    rate = np.diff(tally.right) / np.maximum(sizes, 1)

    excess = right_before - rate * answers_before
    harmonic = _harmonic_numbers(n).take(tally.answers)
    spans = np.diff(harmonic)
    all_right = tally.right[:, -1]  # the sum of g r over the groups
    sums = all_right + np.einsum("rg,rg->r", excess, spans)
    return np.asarray(sums / n)


def accuracies_at(tally: Tally, retentions: Sequence[float]) -> FloatArray:
    """Expected accuracy of the ceil(retention n) most certain, for each retention: `(n_retentions, n_resamples)`."""
    n = int(tally.answers[0, -1])
    wanted = np.ceil(np.array(retentions) * n - 1e-9)
    # of another type than the rows', `searchsorted` would convert all of them
    kept = np.maximum(1, wanted).astype(np.int32)
    # by resample and retention: the group that holds the last answer that is kept
    last = np.stack([row.searchsorted(kept) for row in tally.answers])
    rows = np.arange(len(last))[:, None]

    answers_before = tally.answers[rows, last - 1]
    right_before = tally.right[rows, last - 1]
    in_group = tally.answers[rows, last] - answers_before
    right_in_group = tally.right[rows, last] - right_before

    rate = right_in_group / in_group
    kept_in_group = kept - answers_before
    right = right_before + rate * kept_in_group
    accuracies = right / kept
    return np.asarray(accuracies.T)


@lru_cache(maxsize=1)
def _harmonic_numbers(n: int) -> FloatArray:
    inverses = 1.0 / np.arange(1, n + 1)
    return np.append(0.0, inverses.cumsum())


def join_ties(values: npt.ArrayLike) -> FloatArray:
    """Makes values equal, shape `(n,)`, that differ only by rounding errors, so that these do not affect the ranking.

    Sorted values that lie less than 1e-9 apart are one group, and so are those that others between them connect: no
    order matters, and no grid splits neighbours. Each value becomes the lowest of its group, to ten decimals, so that
    scores that are equal by definition have equal values, too.

    >>> join_ties([0.3, 0.1 + 0.2, 0.5])
    array([0.3, 0.3, 0.5])
    """
    numbers = np.array(values, dtype=np.float64)
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    is_first = np.diff(ordered, prepend=-np.inf) >= TIE
    lowest = np.array([round(value, 10) for value in ordered[is_first].tolist()])
    groups = np.cumsum(is_first) - 1
    numbers[order] = lowest[groups]
    return numbers


def check_shares(
    correct: npt.ArrayLike, uncertainty: npt.ArrayLike
) -> tuple[FloatArray, FloatArray]:
    """Returns `correct` as numbers in [0, 1] and `uncertainty` as finite ones, equally many and at least one."""
    right = np.asarray(correct)
    numbers = np.asarray(uncertainty)
    are_shares = False
    if _is_numeric(right):
        is_share = (right >= 0) & (right <= 1)
        are_shares = bool(is_share.all())
    if not are_shares:
        raise ValueError(
            '"correct" must hold True and False (or 1 and 0, or a share of right between them); '
            f"got {_first_invalid(right)!r}. Omit, and count, rows whose correctness is not known"
        )
    if not _is_numeric(numbers) or not np.isfinite(numbers).all():
        raise ValueError(
            f'"uncertainty" must hold finite numbers only; got {_first_invalid(numbers)!r}. '
            "Omit, and count, rows that have none"
        )
    if right.ndim != 1 or right.shape != numbers.shape or right.size == 0:
        raise ValueError(
            f'"correct" and "uncertainty" must be equally long and not empty; got shapes {right.shape} and '
            f"{numbers.shape}. Pass one value of each per answer"
        )
    return right.astype(np.float64), numbers.astype(np.float64)


def _is_numeric(array: npt.NDArray[Any]) -> bool:
    """Whether an array holds booleans, integers or real numbers."""
    return array.dtype.kind in "biuf"


def _first_invalid(array: npt.NDArray[Any]) -> object:
    if not _is_numeric(array):
        return array.dtype.name
    is_invalid = ~np.isfinite(array)
    if not is_invalid.any():
        is_invalid = (array < 0) | (array > 1)
    return array[is_invalid][0].item()
