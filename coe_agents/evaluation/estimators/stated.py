"""Owns the estimators that came with the data: what the agents say about their own answers; higher = less sure."""

from typing import Any

import numpy as np

from coe_agents.errors import SamplesError
from coe_agents.evaluation.statistics import Statistics


def p_false(statistics: Statistics) -> float | None:
    """The mean over agents of the mean of the samples' field `p_false`, in [0, 1]; higher = less sure.

    It is an agent's probability that its response is false (Kadavath et al., 2022). None if an agent has none.
    """
    return _mean_of_field(statistics, "p_false")


def verbal_confidence(statistics: Statistics) -> float | None:
    """1 - the mean over agents of the mean of the samples' field `verbal_conf`, in [0, 1]; higher = less sure.

    It is the confidence that an agent put into words. None if an agent has none.
    """
    mean = _mean_of_field(statistics, "verbal_conf")
    return None if mean is None else 1.0 - mean


def _mean_of_field(statistics: Statistics, field: str) -> float | None:
    by_agent: dict[str, list[float]] = {name: [] for name in statistics.names}
    for sample in statistics.responses:
        value: Any = sample.get(field)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value <= 1.0:
            raise SamplesError(
                f'question {statistics.question.id!r}: "{field}" of {sample["agent"]!r} must be a probability or null; '
                f"it is {str(value)[:50]!r}",
                hint="Correct it, or leave out the field",
            )
        by_agent[sample["agent"]].append(float(value))
    if not all(by_agent.values()):
        return None
    return float(np.mean([np.mean(values) for values in by_agent.values()]))
