"""Owns what is computed once per question, for all estimators to read."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice, permutations
from typing import Any, Literal, cast

import numpy as np

from coe_agents.actions.match import compare_actions
from coe_agents.actions.proposals import compared_answer, has_proposals
from coe_agents.clustering import Clusterer, EntailmentModel, canonical_answer, cluster_many
from coe_agents.clustering.protocols import ENTAILMENT
from coe_agents.evaluation.metrics.tallies import FloatArray, IntArray
from coe_agents.evaluation.samples.line import Sample
from coe_agents.evaluation.samples.sampled_question import SampledQuestion
from coe_agents.evaluation.scoring.figures import compute_figures
from coe_agents.policy import Measurement, measure
from coe_agents.policy.measurement import response_text
from coe_agents.policy.weighting import Weighting, log_probabilities, most_probable, shares
from coe_agents.uncertainty import cluster_distributions, collaborative_entropy, ensemble_mean
from coe_agents.uncertainty.entropies import shannon
from coe_agents.uncertainty.ties import shares_lead

ActionKind = Literal["call", "no_call"]
BATCH = 64
"""Questions that go to the clusterer together, and then to the criterion of correctness."""


@dataclass(frozen=True)
class Statistics:
    """One question's responses, clustered and measured; at least one response.

    Attributes:
        question: The question and its samples; `responses` are in the order of `labels`.
        labels: The cluster of each response; clusters are numbered by their texts, so that agents do not matter.
        weighting: How responses count, as asked for.
        names: The agents that responded, in the order of the rows of `distributions`.
        agents: The row of each response's agent.
        log_probs: Each response's length-normalised log-probability; 0 for those of an agent that counts by frequency.
        counts_by_probability: Whether each agent's responses count by probability, in the order of the rows.
        distributions: Shape `(n_agents, n_clusters)`, by the weighting asked for.
        support: The ensemble mean of each cluster, shape `(n_clusters,)`.
        leading: The clusters that share the lead: one, or more on a tie.
        entropies: The semantic entropy of each agent, in the order of the rows.
        figures: Scores by name; None where it cannot be computed: see `compute_figures`.
        proposer: The agent whose first response is judged; None where the group's answer is.
        weights: Of the agents by name, 1 for those without. They change `support`, `leading` and `measurement`.
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

    @cached_property
    def measurement(self) -> Measurement:
        """What a policy receives; most scores are computed without it, since it takes as long as all of them."""
        labels = self.labels.tolist()
        weights = {name: self.weights.get(name, 1.0) for name in self.names} if self.weights else None
        how: dict[str, Any] = {"weights": weights, "weighting": self.weighting, "n_resamples": 0}
        return measure(self.responses, labels, with_contested=False, **how)

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
        found: list[list[int]] = [[] for _ in self.support]
        for place, label in enumerate(self.labels.tolist()):
            found[label].append(place)
        return found

    @cached_property
    def proposal(self) -> int | None:
        """The place of the proposer's first response, that of the lowest round and index; None without one."""
        return next((i for i, each in enumerate(self.responses) if each["agent"] == self.proposer), None)

    @cached_property
    def action_kind(self) -> ActionKind | None:
        """Whether a tool is called, by the proposal or else by a leading answer; None of texts."""
        if self.is_text:
            return None
        judged = (
            [self.responses[place] for cluster in self.leading for place in self.places[cluster]]
            if self.proposer is None
            else []
            if self.proposal is None
            else [self.responses[self.proposal]]
        )
        if all(response.get("calls") is None for response in judged):
            return None
        return "call" if any(response.get("calls") for response in judged) else "no_call"

    @cached_property
    def is_text(self) -> bool:
        return not has_proposals(self.responses)

    @property
    def is_tied(self) -> bool:
        return len(self.leading) > 1

    def answer_of(self, cluster: int) -> str:
        """Returns a cluster's most probable response; of tool calls the canonical action."""
        if self.leading == (cluster,) and not self.is_text and self.measurement.calls is None:
            return self.measurement.answer
        places = self.places[cluster]
        return most_probable([response_text(self.responses[place]) for place in places], self.response_shares[places])


def iter_statistics(
    questions: Iterable[SampledQuestion],
    *,
    clusterer: Clusterer,
    weighting: Weighting = "auto",
    entailment: EntailmentModel | None = None,
    proposer: str | None = None,
    weights: Mapping[str, float] | None = None,
) -> Iterator[Statistics]:
    """Yields the statistics of each question that has a response; a few questions are held at a time.

    Responses are compared by their `answer`, else by the canonical answer of their text. For the distances between
    clusters, `entailment` is asked two pairs per pair of clusters; the other arguments are as in `ScoringSetup`.
    `weights` are the agents' by name, 1 for those without; they change the measurement and its leading cluster, and
    questions that only agents of weight 0 answered are left out. A ValueError if `weighting` is "probability" and an
    agent lacks log-probabilities.
    """
    weight_of = weights or {}
    waiting = iter(questions)
    for first in waiting:
        batch = [
            _fill_answers(question)
            for question in chain([first], islice(waiting, BATCH - 1))
            if any(weight_of.get(response["agent"], 1.0) > 0.0 for response in question.responses)
        ]
        texts = [[response_text(response) for response in question.responses] for question in batch]
        found = _cluster(batch, texts, clusterer)
        labels = [_number_by_text(texts_of_one, own) for texts_of_one, own in zip(texts, found, strict=True)]
        alike: dict[tuple[str, ...], list[int]] = {}
        for place, question in enumerate(batch):
            alike.setdefault(tuple(response["agent"] for response in question.responses), []).append(place)
        ready: dict[int, Statistics] = {}
        for places in alike.values():
            chosen, own_labels = [batch[place] for place in places], [labels[place] for place in places]
            ready.update(
                zip(places, _compute_statistics(chosen, own_labels, weighting, proposer, weight_of), strict=True)
            )
        statistics = [ready[place] for place in range(len(batch))]
        yield from statistics if entailment is None else _with_distances(statistics, entailment)


def _cluster(batch: Sequence[SampledQuestion], texts: Sequence[Sequence[str]], clusterer: Clusterer) -> list[list[int]]:
    """Returns the labels of the texts of each question's responses; tool calls are compared as actions."""
    labels: list[list[int]] = [[] for _ in batch]
    are_proposed = [has_proposals(question.responses) for question in batch]
    for is_proposed, own in ((False, clusterer), (True, compare_actions(clusterer))):
        places = [place for place, of_calls in enumerate(are_proposed) if of_calls is is_proposed]
        found = cluster_many(
            [texts[place] for place in places], questions=[batch[place].text for place in places], clusterer=own
        )
        for place, one in zip(places, found, strict=True):
            labels[place] = one
    return labels


def _log_probabilities(question: SampledQuestion, weighting: Weighting) -> tuple[FloatArray, dict[str, bool]]:
    try:
        return log_probabilities(question.responses, weighting)
    except ValueError as error:
        raise ValueError(f"question {question.id!r}: {error}") from error


def _compute_statistics(
    questions: Sequence[SampledQuestion],
    labels: Sequence[Sequence[int]],
    weighting: Weighting,
    proposer: str | None,
    weights: Mapping[str, float],
) -> Iterator[Statistics]:
    """Yields the statistics of questions with as many responses of the same agents: one array operation serves all.

    Distributions are padded with clusters of probability 0, which change no figure.
    """
    numbers: dict[str, int] = {}
    agents = np.array([numbers.setdefault(response["agent"], len(numbers)) for response in questions[0].responses])
    clusters = np.array(labels)
    known = [_log_probabilities(each, weighting) for each in questions]
    likely = np.array([log_probs for log_probs, _ in known])
    # probabilities and counts of 1 cannot be pooled
    poolable = np.array([log_probs * all(by_agent.values()) for log_probs, by_agent in known])
    distributions = cluster_distributions(clusters, agents, log_probs=likely)
    own_weights = np.array([weights.get(name, 1.0) for name in numbers])
    support = (
        ensemble_mean(distributions, weights=own_weights / own_weights.sum()) if weights else distributions.mean(axis=1)
    )
    entropies = shannon(distributions)
    figures = compute_figures(
        distributions,
        pooled=cluster_distributions(clusters, np.zeros_like(agents), log_probs=poolable)[:, 0],
        support=support,
        frequencies=cluster_distributions(clusters, agents),
    )
    leads = shares_lead(support).tolist()
    for i, question in enumerate(questions):
        n_clusters = max(labels[i]) + 1
        yield Statistics(
            question=question,
            labels=clusters[i],
            weighting=weighting,
            names=tuple(numbers),
            agents=agents,
            log_probs=likely[i],
            counts_by_probability=tuple(known[i][1][name] for name in numbers),
            distributions=distributions[i, :, :n_clusters],
            support=support[i, :n_clusters],
            leading=tuple(cluster for cluster, leads_here in enumerate(leads[i]) if leads_here),
            entropies=tuple(entropies[i].tolist()),
            figures={name: values[i] for name, values in figures.items()},
            proposer=proposer,
            weights=weights,
        )


def _fill_answers(question: SampledQuestion) -> SampledQuestion:
    """Returns the question with what is compared of each response as its answer; see `compared_answer`."""
    if has_proposals(question.responses):
        compared = [{**response, "answer": compared_answer(response)} for response in question.responses]
        return replace(question, responses=cast("tuple[Sample, ...]", tuple(compared)))
    answers: dict[str, str] = {}  # many texts are equal
    responses: list[Sample] = []
    for response in question.responses:
        if response["answer"] is not None:
            responses.append(response)
            continue
        text = response["text"]
        answer = answers.get(text)
        if answer is None:
            answer = answers[text] = canonical_answer(text)
        filled = response.copy()
        filled["answer"] = answer
        responses.append(filled)
    return replace(question, responses=tuple(responses))


def _number_by_text(texts: Sequence[str], labels: Sequence[int]) -> list[int]:
    """Numbers the clusters in the order of their texts: the order of the responses changes nothing."""
    inside: dict[int, set[str]] = {}
    for text, label in zip(texts, labels, strict=True):
        inside.setdefault(label, set()).add(text)
    ranked = sorted(inside, key=lambda label: sorted(inside[label]))
    numbers = {label: number for number, label in enumerate(ranked)}
    return [numbers[label] for label in labels]


def _with_distances(batch: Sequence[Statistics], entailment: EntailmentModel) -> Iterator[Statistics]:
    """Yields the statistics with `coe_wasserstein` over a ground metric between the clusters.

    It is 1 - the mean of both directions' probability of entailment between their most probable responses. All pairs go
    to the model in one request.
    """
    pairs: list[tuple[str, str]] = []
    for each in batch:
        answers = [each.answer_of(cluster) for cluster in range(len(each.support))]
        pairs += permutations([" ".join(f"{each.question.text} {answer}".split()) for answer in answers], 2)
    entailed = iter(np.asarray(entailment.predict(pairs))[:, ENTAILMENT].tolist() if pairs else ())
    for each in batch:
        matrix = np.eye(len(each.support))
        off_diagonal = matrix == 0.0
        matrix[off_diagonal] = [next(entailed) for _ in range(off_diagonal.sum())]
        metric = 1.0 - (matrix + matrix.T) / 2.0
        found = collaborative_entropy(each.distributions, divergence="wasserstein", ground_metric=metric).total
        yield replace(each, figures={**each.figures, "coe_wasserstein": float(found)})
