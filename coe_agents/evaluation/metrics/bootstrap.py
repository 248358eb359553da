"""Owns the bootstrap of the metrics: 95 % intervals, and paired intervals of differences to a reference score."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from coe_agents.evaluation.metrics import tallies
from coe_agents.evaluation.metrics.selective_prediction import RETENTIONS, paper_area
from coe_agents.evaluation.metrics.tallies import CountArray, FloatArray, Ranking
from coe_agents.evaluation.parallel import map_in_processes

_CELLS = 100_000
"""Resampled rows held at once, or one resample: a block of them and what is computed of it stay in the cache."""

METRICS = ("auroc", "aurac", "paper_aurac", *(f"accuracy at {share}" for share in RETENTIONS))

Estimate = tuple[float, float, float]
"""A value and the ends of its 95 % interval."""
_ByScore = dict[str, dict[str, Estimate]]
Estimates = tuple[_ByScore, _ByScore]
"""By score and metric: estimates, and those of the differences to a reference score."""


def resamples(n: int, *, n_resamples: int) -> Iterator[CountArray]:
    """Yields blocks of shape `(some, n)`: how often each resample of `n` rows holds each row; always the same ones."""
    generator = np.random.default_rng(0)
    block = max(1, min(n_resamples, _CELLS // n))
    for start in range(0, n_resamples, block):
        size = min(block, n_resamples - start)
        drawn = generator.integers(n, size=(size, n))
        # one count over all resamples of the block, in which each has numbers of its own
        drawn += np.arange(size)[:, None] * n
        counts = np.bincount(drawn.ravel(), minlength=size * n)
        yield counts.astype(np.int32).reshape(size, n)


def estimate_all(
    correct: npt.ArrayLike,
    scores: Mapping[str, npt.ArrayLike],
    *,
    reference: str = "coe",
    n_resamples: int = 1000,
    n_processes: int = 1,
) -> Estimates:
    """Every metric of every score with its percentile bootstrap interval, and its difference to the reference score.

    All scores, of shape `(n,)` as `correct`, are resampled together, row by row, so a difference is paired: it is far
    less noisy than its two sides. `n_processes` share the scores; each draws all resamples, so that they are those of
    one process.

    Returns:
        By score and metric: (value, low, high), and (value - reference's, low, high), empty without the reference. All
        NaN where the metric is; a resample in which it is NaN (all answers right, or all wrong) does not count.
    """
    rankings, places = _distinct(correct, scores)
    values = [_all_metrics(ranking)[:, 0] for ranking in rankings]

    n_shares = min(n_processes, len(rankings))
    shares = [rankings[start::n_shares] for start in range(n_shares)]
    spread: list[FloatArray] = [np.empty(0)] * len(rankings)
    resample = partial(_resample, n=np.size(correct), n_resamples=n_resamples)
    for start, of_share in enumerate(map_in_processes(resample, shares, n_processes)):
        spread[start::n_shares] = of_share

    base = places.get(reference)
    estimates = {}
    differences = {}
    for name, place in places.items():
        estimates[name] = _estimates(values[place], spread[place])
        if base is not None and name != reference:
            differences[name] = _estimates(
                values[place] - values[base], spread[place] - spread[base]
            )
    return estimates, differences


def _resample(rankings: Sequence[Ranking], *, n: int, n_resamples: int) -> list[FloatArray]:
    blocks = []
    for counts in resamples(n, n_resamples=n_resamples):
        # as bytes, since each ranking reads them in an order of its own
        narrow = counts.astype(np.min_scalar_type(counts.max()))
        blocks.append(np.array([_all_metrics(ranking, narrow) for ranking in rankings]))
    return list(np.concatenate(blocks, axis=2))


def _distinct(
    correct: npt.ArrayLike, scores: Mapping[str, npt.ArrayLike]
) -> tuple[list[Ranking], dict[str, int]]:
    """Returns the rankings that differ, and which of them each score has: many rank alike, and are tallied once."""
    rankings: list[Ranking] = []
    places = {}
    for name, values in scores.items():
        ranking = Ranking(correct, values)
        place = 0
        while place < len(rankings) and not rankings[place].ranks_like(ranking):
            place += 1
        if place == len(rankings):
            rankings.append(ranking)
        places[name] = place
    return rankings, places


def _all_metrics(
    ranking: Ranking, counts: npt.NDArray[np.integer[Any]] | None = None
) -> FloatArray:
    tally = ranking.tally(counts)
    accuracies = tallies.accuracies_at(tally, RETENTIONS)
    areas = tallies.area_under_roc(tally), tallies.area_under_accuracy(tally)
    return np.stack([*areas, paper_area(accuracies), *accuracies])


def _estimates(values: FloatArray, spread: FloatArray) -> dict[str, Estimate]:
    return {name: with_interval(values[i], spread[i]) for i, name in enumerate(METRICS)}


def to_plain(estimate: Estimate) -> list[float | None]:
    """Returns a value and its interval as JSON has it; None for NaN."""
    return [None if np.isnan(number) else number for number in estimate]


def with_interval(value: float, drawn: FloatArray, *, n_intervals: int = 1) -> Estimate:
    """Returns the value with the 2.5 % and 97.5 % quantiles of its resamples, NaN among them left out.

    Of `n_intervals` that are looked at together, each has the quantiles 2.5 % / n and 1 - 2.5 % / n, so that all of
    them hold at once with 95 % (Bonferroni).
    """
    counted = drawn[~np.isnan(drawn)]
    if np.isnan(value) or not counted.size:
        return float("nan"), float("nan"), float("nan")
    low, high = np.quantile(counted, [0.025 / n_intervals, 1.0 - 0.025 / n_intervals])
    return float(value), float(low), float(high)


def mean_with_interval(values: npt.ArrayLike, *, n_resamples: int = 1000) -> Estimate:
    """Returns the mean of values, shape `(n,)`, with its bootstrap interval: see `with_interval`."""
    numbers = np.asarray(values, dtype=np.float64)
    blocks = resamples(numbers.size, n_resamples=n_resamples)
    drawn = np.concatenate([counts @ numbers / numbers.size for counts in blocks])
    return with_interval(float(numbers.mean()), drawn)
