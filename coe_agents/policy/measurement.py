"""Owns the step from labelled responses to a `Measurement`, everything that a policy sees."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import mul
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Never

import numpy as np

from coe_agents._removed import missing_attribute, refuse_arguments
from coe_agents.actions import contested
from coe_agents.actions.canonical import to_line
from coe_agents.actions.contested import argument_support
from coe_agents.actions.structured import ANSWER
from coe_agents.clustering import Clusterer
from coe_agents.clustering.refusals import answer_kind
from coe_agents.policy.weighting import (
    Weighting,
    log_probabilities,
    most_probable,
    places_of,
    shares,
    stated_confidences,
    token_confidences,
    weighed_agents,
)
from coe_agents.types import AnswerKind, Regime, Response, RoundData, end_of
from coe_agents.uncertainty import coordinate, ensemble_mean, regime
from coe_agents.uncertainty.collaborative import parts_of
from coe_agents.uncertainty.distributions import one_question
from coe_agents.uncertainty.divergences import kernel
from coe_agents.uncertainty.solvers import Solver
from coe_agents.uncertainty.ties import shares_lead

DEFAULT_ALEATORIC_THRESHOLD = 0.5
DEFAULT_EPISTEMIC_THRESHOLD = 0.3


class Sampled(NamedTuple):
    """What a measurement is of: the question, "" where not known, and the responses with their clusters."""

    question: str
    responses: Sequence[Response]
    labels: Sequence[int]


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
        regime: "consensus", "conflict", "ambiguous" or "unknown".
        n_agents: How many agents were measured.
        support: The ensemble mean of each cluster.
        representatives: The most probable response of each cluster.
        answer: The most probable response of the leading cluster; if several clusters share the lead, the first by
            text.
        answer_kind: "answer"; of proposals "call" or "no_call"; or "refusal" or "empty", which cannot be answered.
        tied: The representatives of the clusters that share the lead; () without a tie.
        surprisal: -log of the leading cluster's support, in nats.
        coordinated_coe: CoE after Algorithm 1; None without coordination.
        agents: The measurement of each agent, by name.
        proposal_support: The support of each agent's own first response: the mean probability that the *other* agents
            give to its cluster, by their weights, in [0, 1]. An agent without others of a weight above 0 is omitted.
        proposals: The representative of the cluster of each agent's own first response.
        votes: By agent of a weight above 0: the representative of the cluster that holds more than half of its
            responses; None if no cluster does.
        proposer: The agent whose proposal is judged; None where the group decides together.
        calls: The tool calls of the leading proposal, as they were proposed; () if it calls nothing. None if no
            response is a proposal.
        writings: The tool calls of each representative that is a proposal, as they were proposed: of equal actions as
            most of the ensemble mean wrote them, of equal shares the first by their JSON.
        fields: The share of the ensemble mean that agrees with each field of the leading structured answer, in [0, 1]:
            see `coe_agents.actions.contested.argument_support`; None of anything else.
        contested: What the proposals disagree about: see `coe_agents.actions.contested`; None if nothing.
        conformity: The share of agents that changed to the leading answer in a debate: see
            `coe_agents.rounds.trajectory.conformity`; None without a debate.
        history: The rounds before this one, in order.
        tokens_left: How many tokens the run's budget leaves for further rounds; None without one.
        weights: The agents' weights by name, summing to 1; {} for equal ones.
        scores: Scores of uncertainty by name, where they were computed before; see `coe_agents.policy.estimators`.
        sampled: What was measured, for the scores that were not; None where it is not kept.
    """

    coe: float
    aleatoric: float
    epistemic: float
    regime: Regime
    n_agents: int
    support: tuple[float, ...]
    representatives: tuple[str, ...] = ()
    answer: str
    answer_kind: AnswerKind
    tied: tuple[str, ...] = ()
    surprisal: float
    coordinated_coe: float | None = None
    agents: Mapping[str, AgentMeasurement]
    proposal_support: Mapping[str, float] = field(default_factory=dict)
    proposals: Mapping[str, str] = field(default_factory=dict)
    votes: Mapping[str, str | None] = field(default_factory=dict)
    proposer: str | None = None
    calls: tuple[dict[str, Any], ...] | None = None
    writings: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)
    fields: Mapping[str, float] | None = None
    contested: Mapping[str, Any] | None = None
    conformity: float | None = None
    history: tuple[RoundData, ...] = ()
    tokens_left: float | None = None
    weights: Mapping[str, float] = field(default_factory=dict)
    scores: Mapping[str, float | None] = field(default_factory=dict, compare=False, repr=False)
    sampled: Sampled | None = field(default=None, compare=False, repr=False)

    if not TYPE_CHECKING:  # a type checker would accept every name

        def __getattr__(self, name):
            raise missing_attribute(self, name)

    @property
    def leading(self) -> int:
        """The place of the leading cluster in `support` and `representatives`; on a tie the first by text."""
        if not self.tied:
            return self.support.index(max(self.support))
        leaders = np.flatnonzero(shares_lead(np.array(self.support))).tolist()
        return int(min(leaders, key=lambda cluster: self.representatives[cluster]))

    def voters(self, representative: str, *, besides: str | None = None) -> list[str]:
        """Returns the names of the agents that vote for a cluster, besides one of them, in sorted order."""
        return sorted(
            name for name, vote in self.votes.items() if vote == representative and name != besides
        )


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
    if not responses or len(responses) != len(labels):
        raise ValueError(
            f'"labels" must hold one label for each of at least one response; got {len(labels)} for {len(responses)}. '
            'Get them from "cluster_responses"'
        )
    names, agents, normalized = weighed_agents(responses, weights)
    log_probs, by_probability = log_probabilities(responses, weighting)
    mass = normalized[agents] * shares(log_probs, agents)
    texts = cluster_texts(responses, labels, mass)
    representatives = _distinct(texts)
    places = places_of(representatives)
    clusters, n_responses = np.asarray(labels), np.bincount(agents)
    # where no log-probability counts, counting responses gives the same, and is quicker
    read = log_probs if any(by_probability.values()) else None
    measured = one_question(places[clusters], agents, read, normalized, n_clusters=places.size)
    parts = parts_of(measured.rows, measured.weights, kernel("kl", None, places.size))
    coe, support, coordinated = parts.compose(), parts.mean, None
    if coordination is not None:
        result = coordinate(measured.rows, weights=normalized, solver=coordination)
        coordinated, support = (
            result.coe,
            ensemble_mean(result.distributions, weights=result.weights),
        )
    support, distributions = support[places], measured.rows[:, places]
    rows, weight_of = distributions.tolist(), dict(zip(names, normalized.tolist(), strict=True))
    distributed: list[dict[str, float]] = [{} for _ in names]
    for agent, cluster in np.argwhere(distributions > 0).tolist():
        distributed[agent][representatives[cluster]] = rows[agent][cluster]
    leaders = sorted((representatives[i], i) for i in np.flatnonzero(shares_lead(support)).tolist())
    leading = leaders[0][1]
    firsts, columns = _first_places(responses), distributions.T.tolist()
    proposed = [response.get("calls") for response in responses]
    proposing = [place for place, calls in enumerate(proposed) if calls is not None]
    writings = (
        _writings(responses, labels, mass, texts, representatives, proposing=proposing)
        if proposing
        else {}
    )
    chosen = writings.get(representatives[leading])
    answer, kind, calls = _leading_proposal(
        responses, labels, mass, leading, texts[leading], calls=chosen
    )
    disagreement = None
    if with_contested and any(mass[place] > 0 for place in proposing):
        given = [place for place, response in enumerate(responses) if response["error"] is None]
        judged = None if proposer is None else firsts.get(proposer)
        disagreement = contested(
            [response_text(responses[place]) for place in given],
            mass[given] if len(given) == len(responses) else mass[given] / mass[given].sum(),
            [responses[place]["agent"] for place in given],
            [labels[place] for place in given],
            leading=given.index(judged) if judged in given else None,
            values=[proposed[place] for place in given],
            clusterer=clusterer,
            question=question,
        )
    agreed = None
    if calls is not None and [call["name"] for call in calls] == [ANSWER]:
        compared = [response_text(response).strip() for response in responses]
        agreed = argument_support(compared, mass, answer, clusterer=clusterer, question=question)
    stated = stated_confidences(responses)
    of_tokens = token_confidences(responses)
    lacking = _lacking(responses)
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
        n_agents=len(names),
        support=tuple(support.tolist()),
        representatives=tuple(representatives),
        answer=answer,
        answer_kind=kind,
        tied=tuple(text for text, _ in leaders) if len(leaders) > 1 else (),
        surprisal=float(-np.log(support[leading])) + 0.0,
        coordinated_coe=coordinated,
        agents={
            name: AgentMeasurement(
                n_responses=n_own,
                weighting="probability" if by_probability[name] else "frequency",
                entropy=agent_entropy,
                distribution=distribution,
                confidence=_mean_of_known(stated.get(name, ())),
                token_confidence=of_tokens.get(name),
                states_all=None not in stated.get(name, ()),
                lacking=lacking.get(name, {}),
            )
            for name, n_own, agent_entropy, distribution in zip(
                names, n_responses.tolist(), parts.entropies.tolist(), distributed, strict=True
            )
        },
        proposal_support=_proposal_support(
            {name: columns[labels[firsts[name]]] for name in names}, [*weight_of.values()]
        ),
        proposals={name: representatives[labels[firsts[name]]] for name in names},
        votes=_votes(n_responses, agents, clusters, representatives, weight_of),
        proposer=proposer,
        calls=calls,
        writings=writings,
        fields=agreed,
        contested=disagreement,
        weights={} if len({*weight_of.values()}) == 1 else weight_of,
        sampled=Sampled(question, responses, labels),
    )


def _mean_of_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _lacking(responses: Sequence[Response]) -> dict[str, dict[str, int]]:
    """Returns by agent how many responses are not whole, or empty."""
    counts: dict[str, dict[str, int]] = {}
    for row in responses:
        lack: str = end_of(row)
        if (
            lack == "whole"
            and not row["text"].strip()
            and row.get("calls") is None
            and row["error"] is None
        ):
            lack = "empty"
        if lack != "whole":
            own = counts.setdefault(row["agent"], {})
            own[lack] = own.get(lack, 0) + 1
    return counts


def _first_places(responses: Sequence[Response]) -> dict[str, int]:
    """Returns the place of each agent's first response, that of the lowest round and index; failures come last."""
    firsts: dict[str, tuple[bool, int, int, int]] = {}
    for place, row in enumerate(responses):
        own = (row["error"] is not None, row["round"], row["index"], place)
        former = firsts.get(row["agent"])
        if former is None or own < former:
            firsts[row["agent"]] = own
    return {name: place for name, (*_, place) in firsts.items()}


def _votes(
    n_responses: np.ndarray,
    agents: np.ndarray,
    clusters: np.ndarray,
    representatives: Sequence[str],
    weights: Mapping[str, float],
) -> dict[str, str | None]:
    """Returns what each agent of a weight above 0 votes for: the cluster of the strict majority of its responses.

    `n_responses` are counted by agent; `agents` and `clusters` are those of each response.
    """
    n_clusters = len(representatives)
    counts = np.bincount(agents * n_clusters + clusters, minlength=n_responses.size * n_clusters)
    counts = counts.reshape(-1, n_clusters)
    is_majority = (2 * counts.max(axis=1) > n_responses).tolist()
    return {
        name: representatives[most] if is_one else None
        for (name, weight), most, is_one in zip(
            weights.items(), counts.argmax(axis=1).tolist(), is_majority, strict=True
        )
        if weight > 0
    }


def _proposal_support(
    columns: Mapping[str, Sequence[float]], weights: Sequence[float]
) -> dict[str, float]:
    """Returns the mean probability that the other agents give to the cluster of each agent's first response.

    support_i = sum over j != i of w_j p_j(c_i) / sum over j != i of w_j

    Args:
        columns: By agent, in the order of `weights`: the probability p_j(c_i) that each agent j gives to that cluster.
        weights: An agent without others of a weight above 0 is omitted.
    """
    support: dict[str, float] = {}
    known: dict[tuple[int, float, float], float | None] = {}  # agents that agree have the same
    for i, (name, column) in enumerate(columns.items()):
        key = (id(column), weights[i], column[i])
        if key not in known:
            others = [*weights[:i], 0.0, *weights[i + 1 :]]
            total = math.fsum(others)  # exact, so that no order of agents changes it
            known[key] = (
                min(1.0, math.fsum(map(mul, others, column)) / total) if total > 0 else None
            )
        if (found := known[key]) is not None:
            support[name] = found
    return support


def _writings(
    responses: Sequence[Response],
    labels: Sequence[int],
    mass: np.ndarray,
    texts: Sequence[str],
    representatives: Sequence[str],
    *,
    proposing: Sequence[int],
) -> dict[str, list[dict[str, Any]]]:
    """Returns the calls of each representative as most of the ensemble mean wrote them; `proposing` are the proposals.

    Equal actions may be written in other letters. Neither an agent's name, nor one agent that writes otherwise than the
    others, nor one without a weight decides which of them runs.
    """
    rows: dict[int, list[int]] = {}
    for place in proposing:
        if response_text(responses[place]).strip() == texts[labels[place]]:
            rows.setdefault(labels[place], []).append(place)
    lines = {
        place: to_line(responses[place].get("calls")) for own in rows.values() for place in own
    }
    chosen = {
        label: most_probable([lines[place] for place in own], mass[own])
        for label, own in rows.items()
    }
    return {
        representatives[label]: next(
            responses[place].get("calls") or [] for place in own if lines[place] == line
        )
        for (label, line), own in zip(chosen.items(), rows.values(), strict=True)
    }


def _leading_proposal(
    responses: Sequence[Response],
    labels: Sequence[int],
    mass: np.ndarray,
    leading: int,
    action: str,
    *,
    calls: Sequence[dict[str, Any]] | None,
) -> tuple[str, AnswerKind, tuple[dict[str, Any], ...] | None]:
    """Returns the answer, its kind, and the calls of the leading cluster.

    Where it calls nothing, the answer is its likeliest text.
    """
    if calls is None:  # an agent that was shown no tools
        return action, answer_kind(action), None
    if calls:
        return action, "call", tuple(calls)
    own = [
        (_answerable(row, row["text"]), share)
        for row, label, share in zip(responses, labels, mass.tolist(), strict=True)
        if label == leading and response_text(row).strip() == action
    ]
    text = most_probable([text for text, _ in own], np.array([share for _, share in own]))
    kind = answer_kind(text)
    return text, "no_call" if kind == "answer" else kind, ()


def response_text(response: Response) -> str:
    """Returns the part of a response that is compared: its short answer if known, else its text.

    A filtered response says nothing, unless it is a refusal; what it proposes to call is compared.
    """
    text = response["text"] if response["answer"] is None else response["answer"]
    return text if response.get("calls") is not None else _answerable(response, text)


def _answerable(response: Response, text: str) -> str:
    """Returns the text of a response; "" where it was filtered, so that nobody answers with it."""
    return "" if end_of(response) == "filtered" and answer_kind(text) == "answer" else text


def cluster_texts(
    responses: Sequence[Response], labels: Sequence[int], response_shares: np.ndarray
) -> list[str]:
    """Returns the most probable text of each cluster; `response_shares` are the parts of the ensemble mean."""
    members: list[list[int]] = [[] for _ in range(max(labels) + 1)]
    for place, label in enumerate(labels):
        members[label].append(place)
    texts = [response_text(response).strip() for response in responses]
    found: list[str] = []
    for own in members:
        said = [texts[place] for place in own]
        one = len(set(said)) == 1  # mostly, and settles it
        found.append(said[0] if one else most_probable(said, response_shares[own]) if said else "")
    return found


def _distinct(texts: Sequence[str]) -> list[str]:
    """Returns the texts, numbered where two clusters have the same one."""
    names: list[str] = []
    for cluster, text in enumerate(texts):
        name = text
        while name in names:
            name = f"{name} ({cluster})"
        names.append(name)
    return names
