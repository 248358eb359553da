"""Owns the proposals of a group: who proposed what, who votes for it, how calls were written, and what is contested."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import mul
from typing import Any

import numpy as np

from coe_agents.actions.canonical import to_line
from coe_agents.actions.contested import argument_support, contested
from coe_agents.actions.structured import ANSWER
from coe_agents.clustering import Clusterer
from coe_agents.clustering.refusals import response_text
from coe_agents.measurement.weighting import ClusteredResponses, most_probable
from coe_agents.types import Response


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposals:
    """What the agents propose, and how far they agree about it.

    An agent's own proposal is its first response. Of texts, `calls`, `contested` and `fields` are None, and `writings`
    is empty.

    Attributes:
        proposer: The agent whose proposal is judged; None where the group decides together.
        by_agent: The representative of the cluster of each agent's own proposal.
        support: The support of each agent's own proposal: the mean probability that the *other* agents give to its
            cluster, by their weights, in [0, 1]. An agent without others of a weight above 0 is omitted.
        votes: By agent of a weight above 0: the representative of the cluster that holds more than half of its
            responses; None if no cluster does.
        calls: The tool calls of the leading proposal, as they were proposed; () if it calls nothing.
        writings: The tool calls of each representative that is a proposal, as they were proposed: of equal actions as
            most of the ensemble mean wrote them, of equal shares the first by their JSON.
        contested: What the proposals disagree about: see `coe_agents.actions.contested`; None if nothing.
        fields: The share of the ensemble mean that agrees with each field of the leading structured answer, in [0, 1]:
            see `coe_agents.actions.contested.argument_support`; None of anything else.
    """

    proposer: str | None = None
    by_agent: Mapping[str, str] = field(default_factory=dict)
    support: Mapping[str, float] = field(default_factory=dict)
    votes: Mapping[str, str | None] = field(default_factory=dict)
    calls: tuple[dict[str, Any], ...] | None = None
    writings: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)
    contested: Mapping[str, Any] | None = None
    fields: Mapping[str, float] | None = None

    def voters(self, representative: str, *, besides: str | None = None) -> list[str]:
        """Returns the names of the agents that vote for a cluster, besides one of them, in sorted order."""
        voting = [name for name, vote in self.votes.items() if vote == representative]
        return sorted(name for name in voting if name != besides)


def find_proposals(
    clustered: ClusteredResponses,
    leading: int,
    *,
    proposer: str | None,
    clusterer: Clusterer | None,
    question: str,
    with_contested: bool,
) -> Proposals:
    """Returns the proposals of responses of which the cluster `leading` leads; see `measure` for the arguments."""
    first_places = _first_places(clustered.responses)
    first_clusters: dict[str, int] = {}
    by_agent: dict[str, str] = {}
    for name in clustered.names:
        cluster = clustered.labels[first_places[name]]
        first_clusters[name] = cluster
        by_agent[name] = clustered.representatives[cluster]

    proposing = [
        place
        for place, response in enumerate(clustered.responses)
        if response.get("calls") is not None
    ]
    writings: dict[str, list[dict[str, Any]]] = {}
    if proposing:
        writings = _writings(clustered, proposing)
    leading_calls = writings.get(clustered.representatives[leading])

    disagreement = None
    if with_contested and any(clustered.shares[place] > 0 for place in proposing):
        judged = None if proposer is None else first_places.get(proposer)
        disagreement = _contested(clustered, judged, clusterer=clusterer, question=question)

    agreed_fields = None
    if leading_calls is not None and [call["name"] for call in leading_calls] == [ANSWER]:
        agreed_fields = argument_support(
            [response_text(response).strip() for response in clustered.responses],
            clustered.shares,
            clustered.texts[leading],
            clusterer=clusterer,
            question=question,
        )

    return Proposals(
        proposer=proposer,
        by_agent=by_agent,
        support=_support(clustered, first_clusters),
        votes=_votes(clustered),
        calls=None if leading_calls is None else tuple(leading_calls),
        writings=writings,
        contested=disagreement,
        fields=agreed_fields,
    )


def _first_places(responses: Sequence[Response]) -> dict[str, int]:
    """Returns the place of each agent's first response, that of the lowest round and index; failures come last."""
    firsts: dict[str, tuple[bool, int, int, int]] = {}
    for place, row in enumerate(responses):
        rank = (row["error"] is not None, row["round"], row["index"], place)
        former = firsts.get(row["agent"])
        if former is None or rank < former:
            firsts[row["agent"]] = rank
    return {name: place for name, (*_, place) in firsts.items()}


def _votes(clustered: ClusteredResponses) -> dict[str, str | None]:
    """Returns what each agent of a weight above 0 votes for: the cluster of the strict majority of its responses."""
    n_clusters = len(clustered.representatives)
    n_responses = clustered.n_responses
    # how many responses each agent has in each cluster
    cells = clustered.agents * n_clusters + np.asarray(clustered.labels)
    n_cells = n_responses.size * n_clusters
    counts = np.bincount(cells, minlength=n_cells).reshape(-1, n_clusters)
    most_frequent = counts.argmax(axis=1).tolist()
    is_majority = (2 * counts.max(axis=1) > n_responses).tolist()

    votes: dict[str, str | None] = {}
    for agent, name in enumerate(clustered.names):
        if clustered.weights[agent] > 0:
            representative = clustered.representatives[most_frequent[agent]]
            votes[name] = representative if is_majority[agent] else None
    return votes


def _support(clustered: ClusteredResponses, first_clusters: Mapping[str, int]) -> dict[str, float]:
    """Returns the mean probability that the other agents give to the cluster of each agent's first response.

    support_i = sum over j != i of w_j p_j(c_i) / sum over j != i of w_j

    An agent without others of a weight above 0 is omitted.
    """
    weights = clustered.weights.tolist()
    columns = clustered.distributions.T.tolist()
    support: dict[str, float] = {}
    # agents of equal weight that agree have the same support, which is computed once
    known: dict[tuple[int, float, float], float | None] = {}
    for i, (name, cluster) in enumerate(first_clusters.items()):
        column = columns[cluster]
        key = (cluster, weights[i], column[i])
        if key not in known:
            others = [*weights[:i], 0.0, *weights[i + 1 :]]
            known[key] = _weighted_mean(column, others)
        value = known[key]
        if value is not None:
            support[name] = value
    return support


def _weighted_mean(shares: Sequence[float], weights: Sequence[float]) -> float | None:
    """Returns the mean of shares, in [0, 1]; None without a weight above 0. No order changes a digit."""
    total = math.fsum(weights)
    if not total > 0:
        return None
    weighted_sum = math.fsum(map(mul, weights, shares))
    return min(1.0, weighted_sum / total)


def _writings(
    clustered: ClusteredResponses, proposing: Sequence[int]
) -> dict[str, list[dict[str, Any]]]:
    """Returns the calls of each representative as most of the ensemble mean wrote them; `proposing` are the proposals.

    Equal actions may be written in other letters. Neither an agent's name, nor one agent that writes otherwise than the
    others, nor one without a weight decides which of them runs.
    """
    places_by_cluster: dict[int, list[int]] = {}
    for place in proposing:
        cluster = clustered.labels[place]
        action = response_text(clustered.responses[place]).strip()
        if action == clustered.texts[cluster]:
            places_by_cluster.setdefault(cluster, []).append(place)

    writings: dict[str, list[dict[str, Any]]] = {}
    for cluster, places in places_by_cluster.items():
        proposals = [clustered.responses[place].get("calls") or [] for place in places]
        lines = [to_line(calls) for calls in proposals]
        chosen = most_probable(lines, clustered.shares[places])
        writings[clustered.representatives[cluster]] = proposals[lines.index(chosen)]
    return writings


def _contested(
    clustered: ClusteredResponses, judged: int | None, *, clusterer: Clusterer | None, question: str
) -> Mapping[str, Any] | None:
    """Returns what the proposals disagree about; `judged` is the place of the one that is judged, None without one."""
    places = []
    responses = []
    for place, response in enumerate(clustered.responses):
        if response["error"] is None:
            places.append(place)
            responses.append(response)

    shares = clustered.shares[places]
    has_failures = len(places) < len(clustered.responses)
    if has_failures:
        shares = shares / shares.sum()
    return contested(
        [response_text(response) for response in responses],
        shares,
        [response["agent"] for response in responses],
        [clustered.labels[place] for place in places],
        leading=places.index(judged) if judged in places else None,
        values=[response.get("calls") for response in responses],
        clusterer=clusterer,
        question=question,
    )
