"""Owns tallies that merge: counts of right and wrong answers by cell of uncertainty, in bounded memory.

From them come the figures of many answers, with a bound on how far each is from the exact one, and their intervals.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from coe_agents.evaluation.metrics import tallies
from coe_agents.evaluation.metrics.bootstrap import METRICS, RETENTIONS, Estimate
from coe_agents.evaluation.metrics.selective_prediction import paper_sum
from coe_agents.evaluation.metrics.tallies import FloatArray, IntArray, Tally

CELLS = 16_384
"""Cells of a histogram behind figures."""
CELLS_OF_GROUPS = 1_024
"""Cells of a histogram behind intervals."""
GROUPS = 40
"""Groups of answers that are left out one after the other, for intervals."""
_FINEST = 2.0**30
"""Cells of the finest grid in a unit of uncertainty: a cell is narrower than `TIE`."""
_LARGEST = 2.0**32
"""Beyond it, values share the last cell."""
WHOLE = 2**32
"""A right answer; shares of right are kept as whole numbers, so that no order of sums changes them."""


class Histogram:
    """Counts of answers, and of right answers, in each cell of uncertainty; by group, if asked for.

    Cells have the width 2^(level - 30). The level is the lowest at which at most `most` cells hold an answer, whatever
    the order in which they came: where there are more, pairs of neighbouring cells are joined. So the histogram of a
    whole is exactly the merged histograms of its parts, and values that differ by less than a billionth tie, as in the
    exact figures, as long as few are different. Shares of right are rounded to 2^-32.

    Raises:
        ValueError: `most` is below 2.

    Attributes:
        level: Of the width.
        cells: Shape `(n_cells,)`: the numbers of the cells that hold an answer, in order.
        answers: Shape `(n_cells, n_groups)`.
        right: The same, in units of 2^-32.

    Example:
        >>> whole, first, second = (Histogram(most=2) for _ in range(3))
        >>> whole.add([0.1, 0.4, 0.9], [1, 1, 0])
        >>> first.add([0.9], [0])
        >>> second.add([0.4, 0.1], [1, 1])
        >>> first.merge(second)
        >>> first == whole, whole.cells.size, whole.answers.ravel().tolist()
        (True, 2, [2, 1])
    """

    def __init__(self, *, most: int = CELLS, n_groups: int = 1) -> None:
        if most < 2:
            raise ValueError(f'"most" must be at least 2, for values on both sides of 0; got {most}. Pass a count')
        self.level = 0
        self.cells = np.empty(0, dtype=np.int64)
        self.answers: IntArray = np.empty((0, n_groups), dtype=np.int64)
        self.right: IntArray = np.empty((0, n_groups), dtype=np.int64)
        self._most = most

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Histogram) and (
            self.level == other.level
            and np.array_equal(self.cells, other.cells)
            and np.array_equal(self.answers, other.answers)
            and np.array_equal(self.right, other.right)
        )

    __hash__ = None  # type: ignore[assignment]  # it changes as answers are added

    def add(self, uncertainty: npt.ArrayLike, correct: npt.ArrayLike, groups: npt.ArrayLike = 0) -> None:
        """Adds answers.

        Args:
            uncertainty: Shape `(n,)`, finite; higher = less sure.
            correct: Shape `(n,)`, in [0, 1].
            groups: Shape `(n,)`: the group of each, from 0.
        """
        values = np.clip(np.asarray(uncertainty, dtype=np.float64), -_LARGEST, _LARGEST)
        finest = np.rint(values * _FINEST).astype(np.int64)
        cells, places = np.unique(finest >> self.level, return_inverse=True)
        n_groups = self.answers.shape[1]
        answers = np.zeros((cells.size, n_groups), dtype=np.int64)
        right = np.zeros_like(answers)
        where = places, np.broadcast_to(np.asarray(groups), values.shape)
        np.add.at(answers, where, 1)
        np.add.at(right, where, np.rint(np.asarray(correct, dtype=np.float64) * WHOLE).astype(np.int64))
        self._join(cells, answers, right)

    def merge(self, other: "Histogram") -> None:
        """Adds the answers of another histogram with as many groups."""
        while self.level < other.level:
            self._coarsen()
        cells = other.cells >> (self.level - other.level)
        self._join(*_sum_equal(cells, other.answers, other.right))

    def tally(self, *, without: int | None = None) -> Tally:
        """Returns the running counts of all groups together, or of all but one."""
        answers, right = self.answers.sum(axis=1), self.right.sum(axis=1)
        if without is not None:
            answers, right = answers - self.answers[:, without], right - self.right[:, without]
        running = [np.concatenate([[0], counts.cumsum()])[None] for counts in (answers, right)]
        return Tally(running[0], running[1] / WHOLE)

    def _join(self, cells: IntArray, answers: IntArray, right: IntArray) -> None:
        joined = np.union1d(self.cells, cells)
        sums = []
        for own, new in ((self.answers, answers), (self.right, right)):
            total = np.zeros((joined.size, own.shape[1]), dtype=np.int64)
            total[np.searchsorted(joined, self.cells)] = own
            total[np.searchsorted(joined, cells)] += new
            sums.append(total)
        self.cells, (self.answers, self.right) = joined, sums
        while self.cells.size > self._most:
            self._coarsen()

    def _coarsen(self) -> None:
        self.level += 1
        self.cells, self.answers, self.right = _sum_equal(self.cells >> 1, self.answers, self.right)


def _sum_equal(cells: IntArray, *counts: IntArray) -> tuple[IntArray, ...]:
    """Returns each cell once, of cells in order, and the sums of the counts in it."""
    starts = np.flatnonzero(np.diff(cells, prepend=cells[:1] - 1))
    return (cells[starts], *(np.add.reduceat(each, starts) if starts.size else each for each in counts))


class Figures(NamedTuple):
    """Every metric of `METRICS` by name.

    Attributes:
        values: NaN where the metric is.
        errors: The most by which each may differ from the exact figure.
        left_out: Without one group after the other, shape `(n_groups,)`.
    """

    values: dict[str, float]
    errors: dict[str, float]
    left_out: dict[str, FloatArray]

    def estimates(self) -> dict[str, Estimate]:
        """Returns every metric with its interval."""
        return {name: jackknife(value, self.left_out[name]) for name, value in self.values.items()}

    def difference(self, reference: "Figures", name: str) -> Estimate:
        """Returns how much a metric exceeds that of another score, with its paired interval."""
        value = self.values[name] - reference.values[name]
        return jackknife(value, self.left_out[name] - reference.left_out[name], lowest=-1.0)


class ScoreTally:
    """What is kept of one score: a fine histogram for its figures, and a coarse one in groups for their intervals.

    The groups are dealt by the questions' ids, whatever the score, so that differences between scores are paired.
    """

    def __init__(self) -> None:
        self.fine = Histogram()
        self.grouped = Histogram(most=CELLS_OF_GROUPS, n_groups=GROUPS)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScoreTally) and (self.fine, self.grouped) == (other.fine, other.grouped)

    __hash__ = None  # type: ignore[assignment]  # it changes as answers are added

    def __len__(self) -> int:
        return int(self.fine.answers.sum())

    def add(self, uncertainty: FloatArray, correct: FloatArray, groups: IntArray) -> None:
        """Adds answers, as `Histogram.add`."""
        self.fine.add(uncertainty, correct)
        self.grouped.add(uncertainty, correct, groups)

    def merge(self, other: "ScoreTally") -> None:
        """Adds the answers of another tally."""
        self.fine.merge(other.fine)
        self.grouped.merge(other.grouped)

    def figures(self) -> Figures:
        """Returns the figures of at least one answer."""
        tally = self.fine.tally()
        without = [_metrics(self.grouped.tally(without=group)) for group in range(GROUPS)]
        return Figures(
            _metrics(tally),
            _bounds(tally) if self.fine.level else dict.fromkeys(METRICS, 0.0),
            {name: np.array([each[name] for each in without]) for name in METRICS},
        )


def jackknife(value: float, left_out: FloatArray, *, lowest: float = 0.0) -> Estimate:
    """Returns a value with its 95 % interval by the jackknife that deletes a group.

    The variance is (G - 1) / G sum_g (v_g - mean of v)^2, of the values v_g without group g (Kott, 2001), and the
    interval the value plus and minus the quantile of Student's t with G - 1 degrees of freedom times its root, within
    `lowest` and 1. Unlike the bootstrap, it needs only tallies, no single answers. NaN if the value is, or one
    of the values without a group.
    """
    from scipy.special import stdtrit

    n = left_out.size
    deviations = left_out - left_out.mean()
    half = float(stdtrit(n - 1, 0.975) * np.sqrt((n - 1) / n * np.square(deviations).sum()))
    if np.isnan(value + half):
        return float("nan"), float("nan"), float("nan")
    return value, max(lowest, value - half), min(1.0, value + half)


def _metrics(tally: Tally) -> dict[str, float]:
    if tally.answers[0, -1] == 0:
        return dict.fromkeys(METRICS, float("nan"))
    kept = np.diff(tally.answers[0], prepend=-1) > 0  # a group may be all of a cell
    held = Tally(tally.answers[:, kept], tally.right[:, kept])
    accuracies = tallies.accuracies_at(held, RETENTIONS)
    areas = tallies.area_under_roc(held), tallies.area_under_accuracy(held, harmonic=_harmonic)
    found = np.stack([*areas, paper_sum(accuracies), *accuracies])[:, 0]
    return dict(zip(METRICS, found.tolist(), strict=True))


def _bounds(tally: Tally) -> dict[str, float]:
    """Returns the most by which figures can differ from the exact ones, since only the order within cells is unknown.

    Exact figures lie between those with all wrong answers of each cell behind, or before, all right ones; a tally takes
    them as ties.
    """
    answers, right = tally.answers[0], tally.right[0]
    n, total = float(answers[-1]), float(right[-1])
    r, wrong = np.diff(right), np.diff(answers - right)
    pairs = total * (n - total)
    before, right_before = answers[:-1].astype(np.float64), right[:-1]
    h_before, h_right, h_wrong, h_after = map(_harmonic, (before, before + r, before + wrong, answers[1:]))
    best = (r + (right_before - before) * (h_right - h_before) + (right_before + r) * (h_after - h_right)).sum() / n
    worst = (right_before * (h_wrong - h_before) + r + (right_before - before - wrong) * (h_after - h_wrong)).sum() / n
    middle = float(tallies.area_under_accuracy(tally, harmonic=_harmonic)[0])
    accuracies = np.array([_bound_at(answers, right, share) for share in RETENTIONS])
    return {
        "auroc": float((r * wrong).sum() / (2.0 * pairs)) if pairs > 0 else 0.0,
        "aurac": max(0.0, float(best) - middle, middle - float(worst)),
        "paper_aurac": float(paper_sum(accuracies)),
        **{f"accuracy at {share}": float(bound) for share, bound in zip(RETENTIONS, accuracies, strict=True)},
    }


def _bound_at(answers: IntArray, right: FloatArray, retention: float) -> float:
    """The bound of the accuracy of the ceil(retention n) most certain: part of one cell is kept."""
    kept = max(1, int(np.ceil(retention * int(answers[-1]) - 1e-9)))
    last = int(answers.searchsorted(kept))
    size, inside = answers[last] - answers[last - 1], right[last] - right[last - 1]
    taken = kept - answers[last - 1]
    expected = taken * inside / size
    most, least = min(taken, inside), max(0.0, taken - (size - inside))
    return float(max(most - expected, expected - least) / kept)


def _harmonic(n: npt.ArrayLike) -> FloatArray:
    """H(n), up to a constant: only differences count."""
    from scipy.special import digamma

    return np.asarray(digamma(np.asarray(n, dtype=np.float64) + 1.0))
