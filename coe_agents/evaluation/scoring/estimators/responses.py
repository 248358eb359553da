"""Owns the estimators that read what comes with a response, and no meaning: log-probabilities, stated confidence."""

from collections.abc import Sequence
from statistics import fmean

from coe_agents.checks import is_number
from coe_agents.evaluation.scoring.statistics import Statistics


def regular_entropy(statistics: Statistics) -> float | None:
    """Predictive entropy, the mean over agents of the mean of -logprob, in nats; higher = less sure.

    The Monte Carlo estimate of the entropy of an agent's distribution over whole texts (Kadavath et al., 2022). Long
    responses have more of it. None if an agent has no log-probability.
    """
    logprobs = [sample["logprob"] for sample in statistics.responses]
    means = _means(statistics, [None if logprob is None else -logprob for logprob in logprobs])
    return fmean(means) + 0.0 if len(means) == len(statistics.names) else None


def length_normalised_entropy(statistics: Statistics) -> float | None:
    """The mean over agents of the mean of -logprob / n_tokens, in nats a token (Malinin and Gales, 2021).

    Higher = less sure. None if an agent has no log-probability with a count of tokens.
    """
    counts = [(sample["logprob"], sample["n_tokens"]) for sample in statistics.responses]
    means = _means(statistics, [None if logprob is None or not n else -logprob / n for logprob, n in counts])
    return fmean(means) + 0.0 if len(means) == len(statistics.names) else None


def p_false(statistics: Statistics) -> float | None:
    """The mean over agents of the mean of the samples' field `p_false`, in [0, 1]; higher = less sure.

    It is an agent's probability that its response is false (Kadavath et al., 2022). Agents without one are omitted, and
    so are values that are not probabilities; None if no agent has one.
    """
    means = _means(statistics, _probabilities(statistics, "p_false"))
    return fmean(means) if means else None


def verbal_confidence(statistics: Statistics) -> float | None:
    """1 - the mean over agents of the mean of the samples' field `verbal_conf`, in [0, 1]; higher = less sure.

    It is the confidence that an agent put into words; left out as for `p_false`, sources write -1 for none.
    """
    means = _means(statistics, _probabilities(statistics, "verbal_conf"))
    return 1.0 - fmean(means) if means else None


def _probabilities(statistics: Statistics, field: str) -> list[float | None]:
    given = [sample.get(field) for sample in statistics.responses]
    return [] if given.count(None) == len(given) else [_probability(value) for value in given]


def _probability(value: object) -> float | None:
    return float(value) if is_number(value) and 0.0 <= value <= 1.0 else None


def _means(statistics: Statistics, values: Sequence[float | None]) -> list[float]:
    """The mean of the known values of each agent that has one; `values` are those of the responses."""
    if values.count(None) == len(values):
        return []
    by_agent: dict[int, list[float]] = {}
    for agent, value in zip(statistics.agents.tolist(), values, strict=True):
        if value is not None:
            by_agent.setdefault(agent, []).append(value)
    return list(map(fmean, by_agent.values()))
