"""Owns the bootstrap of the metrics: 95 % intervals, and paired intervals of differences to a reference score."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from coe_agents.checks import integer
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
    integer(n_resamples, '"n_resamples"', least=1, advice="1000 is the default")
    generator = np.random.default_rng(0)
    largest = max(1, min(n_resamples, _CELLS // n))
    for start in range(0, n_resamples, largest):
        size = min(largest, n_resamples - start)
        drawn = generator.integers(n, size=(size, n))
        # one count over all resamples of the block, in which each has numbers of its own
        offsets = n * np.arange(size)[:, None]
        drawn += offsets
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
    rankings = {name: Ranking(correct, values) for name, values in scores.items()}
    values = {name: _all_metrics(ranking)[:, 0] for name, ranking in rankings.items()}

    # each process has every n-th ranking
    names = list(rankings)
    shares = [names[start::n_processes] for start in range(n_processes)]
    resample = partial(_resample, rankings, n=np.size(correct), n_resamples=n_resamples)
    spread: dict[str, FloatArray] = {}
    for of_share in map_in_processes(resample, shares, n_processes):
        spread |= of_share

    estimates = {}
    differences = {}
    for name in names:
        estimates[name] = _estimates(values[name], spread[name])
        if reference in names and name != reference:
            difference = values[name] - values[reference]
            paired_spread = spread[name] - spread[reference]
            differences[name] = _estimates(difference, paired_spread)
    return estimates, differences


def _resample(
    rankings: Mapping[str, Ranking], names: Sequence[str], *, n: int, n_resamples: int
) -> dict[str, FloatArray]:
    """Returns the metrics of the resamples of each ranking that is named, shape `(n_metrics, n_resamples)`."""
    blocks: dict[str, list[FloatArray]] = {name: [] for name in names}
    for counts in resamples(n, n_resamples=n_resamples):
        # as bytes, since each ranking reads them in an order of its own
        smallest_type = np.min_scalar_type(counts.max())
        narrow = counts.astype(smallest_type)
        for name in names:
            blocks[name].append(_all_metrics(rankings[name], narrow))
    return {name: np.concatenate(of_ranking, axis=1) for name, of_ranking in blocks.items()}


def _all_metrics(
    ranking: Ranking, counts: npt.NDArray[np.integer[Any]] | None = None
) -> FloatArray:
    """Returns the value of each of `METRICS` in each resample, shape `(n_metrics, n_resamples)`."""
    tally = ranking.tally(counts)
    roc = tallies.area_under_roc(tally)
    accuracy = tallies.area_under_accuracy(tally)
    accuracies = tallies.accuracies_at(tally, RETENTIONS)
    return np.stack([roc, accuracy, paper_area(accuracies), *accuracies])


def _estimates(values: FloatArray, spread: FloatArray) -> dict[str, Estimate]:
    estimates = {}
    for name, value, of_resamples in zip(METRICS, values, spread, strict=True):
        estimates[name] = with_interval(value, of_resamples)
    return estimates


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
        return np.nan, np.nan, np.nan
    tail = 0.025 / n_intervals
    low, high = np.quantile(counted, [tail, 1.0 - tail])
    return float(value), float(low), float(high)


def mean_with_interval(values: npt.ArrayLike, *, n_resamples: int = 1000) -> Estimate:
    """Returns the mean of values, shape `(n,)`, with its bootstrap interval: see `with_interval`."""
    numbers = np.asarray(values, dtype=np.float64)
    means = []
    for counts in resamples(numbers.size, n_resamples=n_resamples):
        means.append(counts @ numbers / numbers.size)
    return with_interval(float(numbers.mean()), np.concatenate(means))
