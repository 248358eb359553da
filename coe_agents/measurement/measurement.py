"""Owns the step from labelled responses to a `Measurement`, everything that a policy sees."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Literal, NamedTuple, Never

import numpy as np

from coe_agents._removed import missing_attribute, refuse_arguments
from coe_agents.clustering import Clusterer
from coe_agents.clustering.refusals import answer_kind, answerable_text, response_text
from coe_agents.measurement.proposals import Proposals, find_proposals
from coe_agents.measurement.weighting import (
    ClusteredResponses,
    Weighting,
    most_probable,
    stated_confidences,
    token_confidences,
    weigh_responses,
)
from coe_agents.types import (
    DEFAULT_ALEATORIC_THRESHOLD,
    DEFAULT_EPISTEMIC_THRESHOLD,
    AnswerKind,
    Regime,
    Response,
    RoundData,
    end_of,
)
from coe_agents.uncertainty import coordinate, regime
from coe_agents.uncertainty._checks import FloatArray
from coe_agents.uncertainty.collaborative import ensemble_mean, parts_of
from coe_agents.uncertainty.divergences import kernel
from coe_agents.uncertainty.solvers import Solver
from coe_agents.uncertainty.ties import shares_lead


class Sampled(NamedTuple):
    """What a measurement is of: the question, "" where not known, and the responses with their clusters."""

    question: str
    responses: Sequence[Response]
    labels: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What belongs to the run that a measurement is of: what went before, what is left, and the responses themselves.

    Nothing of it is computed from the clusters, but for `scores`.

    Attributes:
        history: The rounds before this one, in order.
        tokens_left: How many tokens the run's budget leaves for further rounds; None without one.
        conformity: The share of agents that changed to the leading answer in a debate: see
            `coe_agents.rounds.trajectory.conformity`; None without a debate.
        scores: Scores of uncertainty by name, where they were computed before; see `coe_agents.measurement.estimators`.
        sampled: The question, its sampled responses and their labels, of which further scores can be computed; None
            where they are not kept.
    """

    history: tuple[RoundData, ...] = ()
    tokens_left: float | None = None
    conformity: float | None = None
    scores: Mapping[str, float | None] = field(default_factory=dict, compare=False, repr=False)
    sampled: Sampled | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class AgentMeasurement:
    """The measurement of one agent.

    Attributes:
        n_responses: How many responses it gave.
        weighting: "probability" if each response counts by its length-normalised probability, "frequency" if by 1.
        entropy: Its semantic entropy, in nats.
        distribution: Its probability of each cluster, by the cluster's representative.
        confidence: The mean of the confidences that it stated, in [0, 1]; None where it stated none.
        token_confidence: The mean of exp(logprob / n_tokens) over its responses, in [0, 1]; None where one is not
            known.
        states_all: Whether `confidence` is of all its responses.
        lacking: How many of its responses lack an answer or a part of it: by how they ended, or "empty"; {} if none.
    """

    n_responses: int
    weighting: Literal["frequency", "probability"]
    entropy: float
    distribution: dict[str, float]
    confidence: float | None = None
    token_confidence: float | None = None
    states_all: bool = True
    lacking: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The uncertainty of a group of agents about one question.

    It does not depend on names or on the order of agents and responses: ties are broken by text.

    Attributes:
        coe: Collaborative Entropy, `aleatoric + epistemic`, in nats (eq. 5).
        aleatoric: Mean semantic entropy of the agents, in nats (eq. 3).
        epistemic: Weighted Kullback-Leibler divergence of the agents from their mean, in nats (eq. 4).
        regime: "consensus", "conflict", "ambiguous" or "unknown", by the thresholds that were passed to `measure`.
        support: The ensemble mean of each cluster.
        representatives: The most probable response of each cluster.
        answer: The most probable response of the leading cluster; if several clusters share the lead, the first by
            text.
        answer_kind: "answer"; of proposals "call" or "no_call"; or "refusal" or "empty", which cannot be answered.
        tied: The representatives of the clusters that share the lead; () without a tie.
        agents: The measurement of each agent, by name.
        weights: The agents' weights by name, summing to 1; {} for equal ones.
        n_agents: How many agents were measured.
        surprisal: -log of the leading cluster's support, in nats.
        coordinated_coe: CoE after Algorithm 1; None without coordination.
        proposals: Who proposed what, and how far the agents agree about it: `.proposer`, `.by_agent`, `.support` and
            `.votes`; of tool calls `.calls`, `.writings`, `.contested` and `.fields`, None or empty of texts. See
            `coe_agents.measurement.proposals.Proposals`.
        run: What belongs to the run so far: `.history`, `.tokens_left` and `.conformity`; see
            `coe_agents.measurement.measurement.Run`.
    """

    coe: float
    aleatoric: float
    epistemic: float
    regime: Regime
    support: tuple[float, ...]
    representatives: tuple[str, ...] = ()
    answer: str
    answer_kind: AnswerKind
    tied: tuple[str, ...] = ()
    agents: Mapping[str, AgentMeasurement]
    weights: Mapping[str, float] = field(default_factory=dict)
    n_agents: int
    surprisal: float
    coordinated_coe: float | None = None
    proposals: Proposals = field(default_factory=Proposals)
    run: Run = field(default_factory=Run)

    if not TYPE_CHECKING:  # a type checker would accept every name

        def __getattr__(self, name):
            raise missing_attribute(self, name)


def leading_cluster(measurement: Measurement) -> int:
    """Returns the place of the leading cluster in `support` and `representatives`; on a tie the first by text."""
    if not measurement.tied:
        return measurement.support.index(max(measurement.support))
    return _leading_clusters(np.array(measurement.support), measurement.representatives)[0]


def measure(
    responses: Sequence[Response],
    labels: Sequence[int],
    *,
    weights: Mapping[str, float] | None = None,
    weighting: Weighting = "auto",
    coordination: str | Solver | None = None,
    aleatoric_threshold: float = DEFAULT_ALEATORIC_THRESHOLD,
    epistemic_threshold: float = DEFAULT_EPISTEMIC_THRESHOLD,
    proposer: str | None = None,
    clusterer: Clusterer | None = None,
    question: str = "",
    with_contested: bool = True,
    **removed: Never,
) -> Measurement:
    """Measures clustered responses.

    Args:
        responses: At least one. Failures are omitted, or count: one with a cluster of its own supports nothing else,
            and nobody contests it.
        labels: The cluster of each response, 0..n_clusters-1.
        weights: Of the agents by name, renormalised over those that responded; uniform by default.
        weighting: How responses count within their agent: "frequency" each 1; "probability" by exp(logprob / n_tokens)
            (eq. 8), which all must have; "auto" by probability for the agents that have it for all their responses.
        coordination: A solver of Algorithm 1, whose weights and distributions then choose the answer.
        aleatoric_threshold: In nats, for the regime.
        epistemic_threshold: In nats, for the regime.
        proposer: The agent whose proposal is judged, for policies that ask for its support.
        clusterer: What the labels of proposals are from; an `ActionMatch` also says which values of an argument are
            equal.
        question: What was asked, for such a clusterer.
        with_contested: Whether to find what proposals disagree about, which takes longer than all else.
        removed: Options of earlier versions; the error of each says what replaces it.

    Raises:
        ValueError: If there is no response, the labels do not fit, all weights are 0, or "probability" is asked for and
            an agent lacks log-probabilities.
    """
    refuse_arguments("measure", removed)
    _check_labels(responses, labels)
    clustered = weigh_responses(responses, labels, weights, weighting)
    parts = parts_of(clustered.rows, clustered.weights, kernel("kl", None, clustered.places.size))
    coe = parts.compose()

    mean = parts.mean
    coordinated_coe = None
    if coordination is not None:
        result = coordinate(clustered.rows, weights=clustered.weights, solver=coordination)
        mean = ensemble_mean(result.distributions, weights=result.weights)
        coordinated_coe = result.coe

    support = mean[clustered.places]
    leaders = _leading_clusters(support, clustered.representatives)
    proposals = find_proposals(
        clustered,
        leaders[0],
        proposer=proposer,
        clusterer=clusterer,
        question=question,
        with_contested=with_contested,
    )
    answer, kind = _leading_answer(clustered, leaders[0], proposals)
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
        support=tuple(support.tolist()),
        representatives=tuple(clustered.representatives),
        answer=answer,
        answer_kind=kind,
        tied=_tied(clustered, leaders),
        agents=_measure_agents(clustered, parts.entropies),
        weights=_unequal_weights(clustered),
        n_agents=len(clustered.names),
        surprisal=float(-np.log(support[leaders[0]])) + 0.0,
        coordinated_coe=coordinated_coe,
        proposals=proposals,
        run=Run(sampled=Sampled(question, responses, labels)),
    )


def _check_labels(responses: Sequence[Response], labels: Sequence[int]) -> None:
    if not responses or len(responses) != len(labels):
        raise ValueError(
            f'"labels" must hold one label for each of at least one response; got {len(labels)} for {len(responses)}. '
            'Get them from "cluster_responses"'
        )


def _leading_clusters(support: FloatArray, representatives: Sequence[str]) -> list[int]:
    """Returns the clusters that share the lead, in the order of their texts."""
    leaders: list[int] = np.flatnonzero(shares_lead(support)).tolist()
    return sorted(leaders, key=lambda cluster: representatives[cluster])


def _tied(clustered: ClusteredResponses, leaders: Sequence[int]) -> tuple[str, ...]:
    if len(leaders) == 1:
        return ()
    return tuple(clustered.representatives[cluster] for cluster in leaders)


def _unequal_weights(clustered: ClusteredResponses) -> dict[str, float]:
    """Returns the weights of the agents by name; {} where all are equal."""
    weights = clustered.weights.tolist()
    if len(set(weights)) == 1:
        return {}
    return dict(zip(clustered.names, weights, strict=True))


def _measure_agents(
    clustered: ClusteredResponses, entropies: FloatArray
) -> dict[str, AgentMeasurement]:
    distributions = clustered.distributions
    probabilities = distributions.tolist()
    by_text: list[dict[str, float]] = [{} for _ in clustered.names]
    for agent, cluster in np.argwhere(distributions > 0).tolist():
        by_text[agent][clustered.representatives[cluster]] = probabilities[agent][cluster]

    stated = stated_confidences(clustered.responses)
    of_tokens = token_confidences(clustered.responses)
    lacking = count_lacking(clustered.responses)
    n_responses = clustered.n_responses.tolist()
    agents: dict[str, AgentMeasurement] = {}
    for agent, (name, entropy) in enumerate(zip(clustered.names, entropies.tolist(), strict=True)):
        own_stated = stated.get(name, [])
        known = [value for value in own_stated if value is not None]
        counts_by_probability = clustered.counts_by_probability[name]
        agents[name] = AgentMeasurement(
            n_responses=n_responses[agent],
            weighting="probability" if counts_by_probability else "frequency",
            entropy=entropy,
            distribution=by_text[agent],
            confidence=fmean(known) if known else None,
            token_confidence=of_tokens.get(name),
            states_all=len(known) == len(own_stated),
            lacking=lacking.get(name, {}),
        )
    return agents


def count_lacking(responses: Sequence[Response]) -> dict[str, dict[str, int]]:
    """Returns by agent how many responses are not whole, or empty."""
    counts: dict[str, dict[str, int]] = {}
    for response in responses:
        lack: str = end_of(response)
        if lack == "whole" and not response["text"].strip():
            is_text = response.get("calls") is None and response["error"] is None
            lack = "empty" if is_text else lack
        if lack != "whole":
            of_agent = counts.setdefault(response["agent"], {})
            of_agent[lack] = of_agent.get(lack, 0) + 1
    return counts


def _leading_answer(
    clustered: ClusteredResponses, leading: int, proposals: Proposals
) -> tuple[str, AnswerKind]:
    """Returns the answer of the leading cluster, and its kind.

    Where the leading proposal calls nothing, the answer is its likeliest text.
    """
    representative = clustered.texts[leading]
    if proposals.calls is None:  # an agent that was shown no tools
        return representative, answer_kind(representative)
    if proposals.calls:
        return representative, "call"
    texts: list[str] = []
    places: list[int] = []
    for place, response in enumerate(clustered.responses):
        in_cluster = clustered.labels[place] == leading
        if in_cluster and response_text(response).strip() == representative:
            texts.append(answerable_text(response, response["text"]))
            places.append(place)
    text = most_probable(texts, clustered.shares[places])
    kind = answer_kind(text)
    return text, "no_call" if kind == "answer" else kind
