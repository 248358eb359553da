"""Owns the estimators that read what the agents state about their own answers; higher = less sure."""

from statistics import fmean
from typing import Any

from coe_agents.evaluation.scoring.statistics import Statistics


def p_false(statistics: Statistics) -> float | None:
    """The mean over agents of the mean of the samples' field `p_false`, in [0, 1]; higher = less sure.

    It is an agent's probability that its response is false (Kadavath et al., 2022). Agents without one are omitted, and
    so are values that are not probabilities; None if no agent has one.
    """
    return _mean_of_field(statistics, "p_false")


def verbal_confidence(statistics: Statistics) -> float | None:
    """1 - the mean over agents of the mean of the samples' field `verbal_conf`, in [0, 1]; higher = less sure.

    It is the confidence that an agent put into words; left out as for `p_false`, sources write -1 for none.
    """
    mean = _mean_of_field(statistics, "verbal_conf")
    return None if mean is None else 1.0 - mean


def _mean_of_field(statistics: Statistics, field: str) -> float | None:
    by_agent: dict[str, list[float]] = {}
    for sample in statistics.responses:
        value: Any = sample.get(field)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0.0 <= value <= 1.0:
            by_agent.setdefault(sample["agent"], []).append(float(value))
    return fmean(map(fmean, by_agent.values())) if by_agent else None
