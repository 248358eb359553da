"""Owns what is computed once per question, for all estimators to read, and the scores that are arrays."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, cast

import numpy as np

from coe_agents.actions.proposals import has_proposals
from coe_agents.clustering.refusals import response_text
from coe_agents.measurement.measurement import Measurement, measure
from coe_agents.measurement.weighting import Weighting, log_probabilities, most_probable, shares
from coe_agents.types import Sample, SampledQuestion
from coe_agents.uncertainty import cluster_distributions, collaborative_entropy, entropy
from coe_agents.uncertainty._checks import FloatArray, IntArray
from coe_agents.uncertainty.collaborative import ensemble_mean
from coe_agents.uncertainty.entropies import shannon
from coe_agents.uncertainty.ties import shares_lead

ActionKind = Literal["call", "no_call"]


@dataclass(frozen=True)
class Statistics:
    """One question's responses, clustered and measured; at least one response.

    Attributes:
        question: The question and its samples; `responses` are in the order of `labels`.
        labels: The cluster of each response; clusters are numbered by their texts, so that agents do not matter.
        weighting: How responses count, as asked for.
        names: The agents that responded, in the order of the rows of `distributions`.
        agents: The row of each response's agent.
        log_probs: Each response's length-normalised log-probability; 0 where its agent counts by frequency.
        counts_by_probability: Whether each agent's responses count by probability, in the order of the rows.
        distributions: Shape `(n_agents, n_clusters)`, by the weighting asked for.
        support: The ensemble mean of each cluster, shape `(n_clusters,)`.
        leading: The clusters that share the lead: one, or more on a tie.
        entropies: The semantic entropy of each agent, in the order of the rows.
        figures: Scores by name; None for a score that cannot be computed: see `compute_figures`.
        proposer: The agent whose first response is judged; None where the group's answer is judged.
        weights: The weights of agents by name; other agents have 1. They change `support`, `leading`, `figures` and
            `measurement`.
        measured: The measurement that these statistics are of; None: `measurement` computes it.
    """

    question: SampledQuestion
    labels: IntArray
    weighting: Weighting
    names: tuple[str, ...]
    agents: IntArray
    log_probs: FloatArray
    counts_by_probability: tuple[bool, ...]
    distributions: FloatArray
    support: FloatArray
    leading: tuple[int, ...]
    entropies: tuple[float, ...]
    figures: Mapping[str, float | None]
    proposer: str | None = None
    weights: Mapping[str, float] = field(default_factory=dict)
    measured: Measurement | None = None

    @cached_property
    def measurement(self) -> Measurement:
        """What a policy receives; most scores are computed without it, since it takes as long as all of them."""
        if self.measured is not None:
            return self.measured
        weights = None
        if self.weights:
            weights = {name: self.weights.get(name, 1.0) for name in self.names}
        return measure(
            self.responses,
            self.labels.tolist(),
            weights=weights,
            weighting=self.weighting,
            question=self.question.text,
            with_contested=False,
        )

    @cached_property
    def responses(self) -> tuple[Sample, ...]:
        return self.question.responses

    @cached_property
    def n_responses(self) -> list[int]:
        return list(np.bincount(self.agents).tolist())

    @cached_property
    def response_shares(self) -> FloatArray:
        """Each response's share of its agent's distribution, shape `(n_responses,)`."""
        return shares(self.log_probs, self.agents)

    @cached_property
    def places(self) -> list[list[int]]:
        """The places of the responses of each cluster."""
        by_cluster: list[list[int]] = [[] for _ in self.support]
        for place, label in enumerate(self.labels.tolist()):
            by_cluster[label].append(place)
        return by_cluster

    @cached_property
    def proposal(self) -> int | None:
        """The place of the proposer's first response, by round and index; None without a response of it."""
        for place, response in enumerate(self.responses):
            if response["agent"] == self.proposer:
                return place
        return None

    @cached_property
    def action_kind(self) -> ActionKind | None:
        """Whether a tool is called, by the proposal or else by a leading answer; None of texts."""
        if self.is_text:
            return None
        places: list[int] = []
        if self.proposal is not None:
            places = [self.proposal]
        elif self.proposer is None:
            places = [place for cluster in self.leading for place in self.places[cluster]]
        judged = [self.responses[place].get("calls") for place in places]
        if all(calls is None for calls in judged):
            return None
        return "call" if any(judged) else "no_call"

    @cached_property
    def is_text(self) -> bool:
        return not has_proposals(self.responses)

    @property
    def is_tied(self) -> bool:
        return len(self.leading) > 1

    def answer_of(self, cluster: int) -> str:
        """Returns a cluster's most probable response, by the agents' weights; of tool calls the canonical action."""
        places = self.places[cluster]
        texts = [response_text(self.responses[place]).strip() for place in places]
        # mostly, and then it is quicker
        if len(set(texts)) == 1:
            return texts[0]
        weights = np.array([self.weights.get(name, 1.0) for name in self.names])
        normalized = weights / weights.sum()
        mass = self.response_shares * normalized[self.agents]
        return most_probable(texts, mass[places])


def _log_probabilities(
    question: SampledQuestion, weighting: Weighting
) -> tuple[FloatArray, dict[str, bool]]:
    try:
        return log_probabilities(question.responses, weighting)
    except ValueError as error:
        raise ValueError(f"question {question.id!r}: {error}") from error


def compute_statistics(
    questions: Sequence[SampledQuestion],
    labels: Sequence[Sequence[int]],
    weighting: Weighting,
    proposer: str | None,
    weights: Mapping[str, float],
) -> Iterator[Statistics]:
    """Yields the statistics of questions with as many responses of the same agents: one array operation serves all.

    Distributions are padded with clusters of probability 0, which change no figure.
    """
    # the row of each agent, by first appearance, and that of each response
    rows: dict[str, int] = {}
    for response in questions[0].responses:
        rows.setdefault(response["agent"], len(rows))
    agents = np.array([rows[response["agent"]] for response in questions[0].responses])
    clusters = np.array(labels)

    log_probs_of_each = []
    counts_by_probability = []
    for question in questions:
        of_question, by_probability = _log_probabilities(question, weighting)
        log_probs_of_each.append(of_question)
        counts_by_probability.append(by_probability)
    log_probs = np.array(log_probs_of_each)
    distributions = cluster_distributions(clusters, agents, log_probs=log_probs)

    # probabilities and counts of 1 cannot be pooled
    can_pool = np.array([all(of_agents.values()) for of_agents in counts_by_probability])
    poolable = log_probs * can_pool[:, np.newaxis]
    as_one_agent = np.zeros_like(agents)
    pooled = cluster_distributions(clusters, as_one_agent, log_probs=poolable)[:, 0]

    if weights:
        unnormalized = np.array([weights.get(name, 1.0) for name in rows])
        normalized = unnormalized / unnormalized.sum()
        support = ensemble_mean(distributions, weights=normalized)
    else:
        normalized = None
        support = distributions.mean(axis=1)
    entropies = shannon(distributions)
    figures = compute_figures(distributions, pooled=pooled, support=support, weights=normalized)
    leads = shares_lead(support)

    for i, question in enumerate(questions):
        n_clusters = max(labels[i]) + 1
        yield Statistics(
            question=question,
            labels=clusters[i],
            weighting=weighting,
            names=tuple(rows),
            agents=agents,
            log_probs=log_probs[i],
            counts_by_probability=tuple(counts_by_probability[i][name] for name in rows),
            distributions=distributions[i, :, :n_clusters],
            support=support[i, :n_clusters],
            leading=tuple(np.flatnonzero(leads[i]).tolist()),
            entropies=tuple(entropies[i].tolist()),
            figures={name: values[i] for name, values in figures.items()},
            proposer=proposer,
            weights=weights,
        )


def statistics_of(measurement: Measurement) -> Statistics | None:
    """Returns the statistics of the responses of a measurement; None where the measurement does not have them.

    The statistics hold no references and no verdicts, so that their scores can be computed of a new question, too.
    """
    if measurement.run.sampled is None:
        return None
    text, responses, labels = measurement.run.sampled
    unknown: dict[str, Any] = {
        "id": "",
        "question": text,
        "references": [],
        "correct": None,
        "tools": None,
    }
    rows = tuple(cast("Sample", {**response, **unknown}) for response in responses)
    by_probability = any(agent.weighting == "probability" for agent in measurement.agents.values())
    computed = compute_statistics(
        [SampledQuestion("", text, (), rows, ())],
        [labels],
        "auto" if by_probability else "frequency",
        measurement.proposals.proposer,
        measurement.weights,
    )
    return replace(next(computed), measured=measurement)


def compute_figures(
    distributions: FloatArray,
    *,
    pooled: FloatArray,
    support: FloatArray,
    weights: FloatArray | None = None,
) -> dict[str, list[float]]:
    """Returns scores by name, each with a value for every question; higher = less sure.

    Questions are padded with clusters of probability 0, which change no figure. Clusters are 1 apart.

    Args:
        distributions: Shape `(n_questions, n_agents, n_clusters)`.
        pooled: Shape `(n_questions, n_clusters)`: the distribution of all responses as one agent's.
        support: Shape `(n_questions, n_clusters)`: the mean of the distributions over the agents.
        weights: Of the agents, by which `support` was taken, for the parts of CoE; None: equal.
    """
    split = collaborative_entropy(distributions, weights=weights)
    figures = {
        # U_A + U_E (equation 5), U_A (equation 3) and U_E (equation 4), in nats
        "coe": split.total,
        "coe_js": collaborative_entropy(distributions, weights=weights, divergence="js").total,
        "coe_hellinger": collaborative_entropy(
            distributions, weights=weights, divergence="hellinger"
        ).total,
        "coe_wasserstein": collaborative_entropy(
            distributions, weights=weights, divergence="wasserstein"
        ).total,
        "aleatoric": split.aleatoric,
        "epistemic": split.epistemic,
        # the mean over the agents of their semantic entropies, in nats
        "semantic_entropy": split.aleatoric,
        # all responses taken as one model's, in nats
        "pooled_semantic_entropy": entropy(pooled),
        **support_figures(support),
    }
    return {name: np.asarray(values).tolist() for name, values in figures.items()}


def support_figures(support: FloatArray) -> dict[str, FloatArray]:
    """Returns the scores that need the ensemble mean alone, shape `(..., n_clusters)`, each of shape `(...)`."""
    return {
        # 1 - the leading cluster's share of the ensemble mean, in [0, 1)
        "vote_share": np.asarray(1.0 - support.max(axis=-1)),
        # the probability that two responses drawn from the ensemble mean differ
        "pooled_disagreement": np.asarray(1.0 - np.square(support).sum(axis=-1)),
    }
