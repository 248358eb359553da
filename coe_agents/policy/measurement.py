"""Owns the step from labelled responses to a `Measurement`: all that a policy may look at."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from coe_agents.clustering import answer_kind
from coe_agents.policy.weighing import Weighting, log_probabilities, most_probable, shares, weighed_agents
from coe_agents.types import AnswerKind, Regime, Response, RoundData
from coe_agents.uncertainty import (
    CoEForecast,
    cluster_distributions,
    coe_interval,
    collaborative_entropy,
    coordinate,
    ensemble_mean,
    leading_cluster,
    regime,
    semantic_entropy,
)
from coe_agents.uncertainty.answers import first_highest, shares_lead

DEFAULT_ALEATORIC_THRESHOLD = 0.5
DEFAULT_EPISTEMIC_THRESHOLD = 0.3


@dataclass(frozen=True, slots=True)
class AgentMeasurement:
    """What one agent says.

    Attributes:
        n_responses: How many responses it gave.
        weighting: "probability" if each response counts by its length-normalised probability, "frequency" if by 1.
        entropy: Its semantic entropy, in nats.
        distribution: Its probability of each cluster, by the cluster's representative.
    """

    n_responses: int
    weighting: Literal["frequency", "probability"]
    entropy: float
    distribution: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The uncertainty of a group of agents about one question.

    Attributes:
        coe: Collaborative Entropy in nats, `aleatoric + epistemic` (eq. 5).
        aleatoric: Mean semantic entropy of the agents, in nats (eq. 3).
        epistemic: Weighted divergence of the agents from their mean (eq. 4), in nats under KL.
        regime: "consensus", "conflict", "ambiguous" or "unknown".
        interval: Bootstrap 95 % interval of `coe`; None if not asked for.
        n_agents: How many agents were measured.
        support: The ensemble mean of each cluster.
        representatives: The first response of each cluster.
        answer: The most probable response of the leading cluster.
        answer_kind: "answer", or "refusal" or "empty", which cannot be answered.
        tied: The representatives of the clusters that share the lead; () without a tie.
        surprisal: -log of the leading cluster's support, in nats.
        coordinated_coe: CoE after Algorithm 1; None without coordination.
        agents: What each agent says, by name.
        conformity: The share of agents that gave way in a debate: see `coe_agents.rounds.conformity`; None without one.
        history: The rounds before this one, in order.
        forecast: Where the responses that are left may take it, as `is_settled` of a policy sees it; else None.
        divergence: The divergence of `epistemic` and `coe`.
    """

    coe: float
    aleatoric: float
    epistemic: float
    regime: Regime
    interval: tuple[float, float] | None = None
    n_agents: int
    support: tuple[float, ...]
    representatives: tuple[str, ...] = ()
    answer: str
    answer_kind: AnswerKind
    tied: tuple[str, ...] = ()
    surprisal: float
    coordinated_coe: float | None = None
    agents: Mapping[str, AgentMeasurement]
    conformity: float | None = None
    history: tuple[RoundData, ...] = ()
    forecast: CoEForecast | None = None
    divergence: str = "kl"

    @property
    def leading(self) -> int:
        """The index of the leading cluster in `support` and `representatives`; the first one on a tie."""
        return int(first_highest(np.array(self.support)))


def measure(
    responses: Sequence[Response],
    labels: Sequence[int],
    *,
    weights: Mapping[str, float] | None = None,
    weighting: Weighting = "auto",
    divergence: str = "kl",
    coordination: str | None = None,
    n_resamples: int = 200,
    aleatoric_threshold: float = DEFAULT_ALEATORIC_THRESHOLD,
    epistemic_threshold: float = DEFAULT_EPISTEMIC_THRESHOLD,
) -> Measurement:
    """Measures clustered responses.

    Args:
        responses: No failures among them, at least one.
        labels: The cluster of each response, 0..n_clusters-1.
        weights: Of the agents by name, renormalised over those that responded; uniform by default.
        weighting: How responses count within their agent: "frequency" each 1; "probability" by exp(logprob / n_tokens)
            (eq. 8), which all must have; "auto" by probability for the agents that have it for all their responses.
        divergence: "kl", "js", "hellinger" or "wasserstein".
        coordination: A solver of Algorithm 1, whose weights and distributions then choose the answer.
        n_resamples: For the bootstrap interval of CoE; 0 leaves it out.
        aleatoric_threshold: In nats, for the regime.
        epistemic_threshold: In nats, for the regime.

    Raises:
        ValueError: If there is no response, the labels do not fit, all weights are 0, or "probability" is asked for and
            an agent lacks log-probabilities.
    """
    if not responses or len(responses) != len(labels):
        raise ValueError(
            f'"labels" must hold one label for each of at least one response; {len(labels)} came for {len(responses)}. '
            'Get them from "cluster_responses"'
        )
    names, agents, normalized = weighed_agents(responses, weights)
    log_probs, by_probability = log_probabilities(responses, weighting)
    distributions = cluster_distributions(labels, agents, log_probs=log_probs)
    if n_resamples:
        bootstrap = coe_interval(
            labels, agents, log_probs=log_probs, weights=normalized, divergence=divergence, n_resamples=n_resamples
        )
        coe, interval = bootstrap.estimate, bootstrap.total
    else:
        coe, interval = collaborative_entropy(distributions, weights=normalized, divergence=divergence), None
    support, coordinated = ensemble_mean(distributions, weights=normalized), None
    if coordination is not None:
        result = coordinate(distributions, weights=normalized, divergence=divergence, solver=coordination)
        coordinated, support = result.coe, ensemble_mean(result.distributions, weights=result.weights)
    entropies = np.atleast_1d(semantic_entropy(distributions)).tolist()
    leading = leading_cluster(support[None])
    texts = [response_text(response) for response in responses]
    answer = most_probable(
        [text if label == leading else None for text, label in zip(texts, labels, strict=True)],
        normalized[agents] * shares(log_probs, agents),
    )
    representatives = _representatives(texts, labels)
    leaders = [text for text, leads in zip(representatives, shares_lead(support), strict=True) if leads]
    return Measurement(
        coe=coe.total,
        aleatoric=coe.aleatoric,
        epistemic=coe.epistemic,
        regime=regime(
            coe.aleatoric,
            coe.epistemic,
            aleatoric_threshold=aleatoric_threshold,
            epistemic_threshold=epistemic_threshold,
        ),
        interval=interval,
        n_agents=len(names),
        support=tuple(support.tolist()),
        representatives=tuple(representatives),
        answer=answer,
        answer_kind=answer_kind(answer),
        tied=tuple(leaders) if len(leaders) > 1 else (),
        surprisal=float(-np.log(support[leading])) + 0.0,
        coordinated_coe=coordinated,
        divergence=divergence,
        agents={
            name: AgentMeasurement(
                n_responses=n_responses,
                weighting="probability" if by_probability[name] else "frequency",
                entropy=agent_entropy,
                distribution={text: p for text, p in zip(representatives, row, strict=True) if p > 0},
            )
            for name, n_responses, agent_entropy, row in zip(
                names, np.bincount(agents).tolist(), entropies, distributions.tolist(), strict=True
            )
        },
    )


def response_text(response: Response) -> str:
    """Returns what is compared of a response: its short answer where known, else all of it."""
    return response["text"] if response["answer"] is None else response["answer"]


def _representatives(texts: Sequence[str], labels: Sequence[int]) -> list[str]:
    """Returns the first text of each cluster, with a number where one text stands in two clusters."""
    first: dict[int, str] = {}
    for text, label in zip(texts, labels, strict=True):
        first.setdefault(label, text.strip())
    names: list[str] = []
    for cluster in range(max(first) + 1):
        name = first.get(cluster, "")
        while name in names:
            name = f"{name} ({cluster})"
        names.append(name)
    return names
