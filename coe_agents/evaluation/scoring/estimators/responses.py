"""Owns the estimators that read what comes with a response, and no meaning: log-probabilities, stated confidence."""

from collections.abc import Callable
from statistics import fmean
from typing import Any

from coe_agents.evaluation.samples import Sample
from coe_agents.evaluation.scoring.score_names import estimator
from coe_agents.evaluation.scoring.statistics import Statistics


@estimator(
    "Log-probabilities", "Regular entropy", "mean negative log-probability of whole responses, whatever they mean"
)
def regular_entropy(statistics: Statistics) -> float | None:
    """Predictive entropy, the mean over agents of the mean of -logprob, in nats; higher = less sure.

    The Monte Carlo estimate of the entropy of an agent's distribution over whole texts (Kadavath et al., 2022). Long
    responses have more of it. None if an agent has no log-probability.
    """
    means = _means(statistics, lambda sample: None if sample["logprob"] is None else -sample["logprob"])
    return fmean(means) + 0.0 if len(means) == len(statistics.names) else None


@estimator("Log-probabilities", "Regular entropy, per token", "mean negative log-probability per token")
def length_normalised_entropy(statistics: Statistics) -> float | None:
    """The mean over agents of the mean of -logprob / n_tokens, in nats a token (Malinin and Gales, 2021).

    Higher = less sure. None if an agent has no log-probability with a count of tokens.
    """

    def per_token(sample: Sample) -> float | None:
        logprob, n_tokens = sample["logprob"], sample["n_tokens"]
        return None if logprob is None or not n_tokens else -logprob / n_tokens

    means = _means(statistics, per_token)
    return fmean(means) + 0.0 if len(means) == len(statistics.names) else None


@estimator("Stated by the agents", "P(False)", "the probability that an agent gives to its response being false")
def p_false(statistics: Statistics) -> float | None:
    """The mean over agents of the mean of the samples' field `p_false`, in [0, 1]; higher = less sure.

    It is an agent's probability that its response is false (Kadavath et al., 2022). Agents without one are omitted, and
    so are values that are not probabilities; None if no agent has one.
    """
    means = _means(statistics, lambda sample: _probability(sample, "p_false"))
    return fmean(means) if means else None


@estimator("Stated by the agents", "Verbal confidence", "1 - the confidence that an agent states in words")
def verbal_confidence(statistics: Statistics) -> float | None:
    """1 - the mean over agents of the mean of the samples' field `verbal_conf`, in [0, 1]; higher = less sure.

    It is the confidence that an agent put into words; left out as for `p_false`, sources write -1 for none.
    """
    means = _means(statistics, lambda sample: _probability(sample, "verbal_conf"))
    return 1.0 - fmean(means) if means else None


def _probability(sample: Sample, field: str) -> float | None:
    value: Any = sample.get(field)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0.0 <= value <= 1.0 else None


def _means(statistics: Statistics, value: Callable[[Sample], float | None]) -> list[float]:
    """The mean of the known values of each agent that has one."""
    by_agent: dict[str, list[float]] = {}
    for sample in statistics.responses:
        if (known := value(sample)) is not None:
            by_agent.setdefault(sample["agent"], []).append(known)
    return list(map(fmean, by_agent.values()))
