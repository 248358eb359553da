"""Owns the estimators that read log-probabilities alone and no meaning; higher = less sure."""

from collections.abc import Callable
from statistics import fmean

from coe_agents.evaluation.samples import Sample
from coe_agents.evaluation.scoring.statistics import Statistics


def regular_entropy(statistics: Statistics) -> float | None:
    """Predictive entropy, the mean over agents of the mean of -logprob, in nats; higher = less sure.

    The Monte Carlo estimate of the entropy of an agent's distribution over whole texts (Kadavath et al., 2022). Long
    responses have more of it. None if an agent has no log-probability.
    """
    return _mean_over_agents(statistics, lambda sample: None if sample["logprob"] is None else -sample["logprob"])


def length_normalised_entropy(statistics: Statistics) -> float | None:
    """The mean over agents of the mean of -logprob / n_tokens, in nats a token (Malinin and Gales, 2021).

    Higher = less sure. None if an agent has no log-probability with a count of tokens.
    """
    return _mean_over_agents(statistics, _per_token)


def _per_token(sample: Sample) -> float | None:
    if sample["logprob"] is None or not sample["n_tokens"]:
        return None
    return -sample["logprob"] / sample["n_tokens"]


def _mean_over_agents(statistics: Statistics, value: Callable[[Sample], float | None]) -> float | None:
    by_agent: dict[str, list[float]] = {name: [] for name in statistics.names}
    for sample in statistics.responses:
        if (known := value(sample)) is not None:
            by_agent[sample["agent"]].append(known)
    if not all(by_agent.values()):
        return None
    return fmean(map(fmean, by_agent.values())) + 0.0
