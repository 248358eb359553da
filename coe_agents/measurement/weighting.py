"""Owns what each response counts, and the clusters: their texts, and the probability that each agent gives to each.

Nothing here depends on agents' names or on the order of agents and responses: ties are broken by text.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from coe_agents.checks import is_number, one_of, require
from coe_agents.clustering.refusals import response_text
from coe_agents.types import Response
from coe_agents.uncertainty._checks import FloatArray, IntArray
from coe_agents.uncertainty.distributions import cluster_distributions
from coe_agents.uncertainty.ties import TIE

Weighting = Literal["auto", "frequency", "probability"]
WEIGHTINGS: tuple[Weighting, ...] = get_args(Weighting)


@dataclass(frozen=True, slots=True)
class ClusteredResponses:
    """The responses to one question in their clusters, and what each counts.

    Clusters stand in two orders: that of the labels, and that of their representatives as texts. Sums are computed in
    the order of the texts, so that neither agents nor labels change a digit.

    Attributes:
        responses: All of them, failures included if they count.
        labels: The cluster of each response.
        names: The agents, by first appearance.
        agents: The place in `names` of each response's agent.
        weights: Of the agents, in the order of `names`, summing to 1.
        counts_by_probability: Whether an agent's responses count by probability, by name.
        shares: Each response's part of the ensemble mean; they sum to 1.
        texts: The most probable text of each cluster.
        representatives: The same, numbered where two clusters have the same one.
        places: The place of each cluster in the order of the texts.
        rows: Each agent's probability of each cluster, shape `(n_agents, n_clusters)`, in the order of the texts.
        distributions: The same in the order of the labels.
    """

    responses: Sequence[Response]
    labels: Sequence[int]
    names: Sequence[str]
    agents: IntArray
    weights: FloatArray
    counts_by_probability: Mapping[str, bool]
    shares: FloatArray
    texts: Sequence[str]
    representatives: Sequence[str]
    places: IntArray
    rows: FloatArray
    distributions: FloatArray

    @property
    def n_responses(self) -> IntArray:
        """How many responses each agent gave, shape `(n_agents,)`."""
        return np.bincount(self.agents)


def weigh_responses(
    responses: Sequence[Response],
    labels: Sequence[int],
    weights: Mapping[str, float] | None,
    weighting: Weighting,
) -> ClusteredResponses:
    """Returns what each of at least one response counts; the arguments are those of `measure`."""
    names, agents, normalized = weighed_agents(responses, weights)
    log_probs, by_probability = log_probabilities(responses, weighting)
    mass = normalized[agents] * shares(log_probs, agents)

    texts = cluster_texts(responses, labels, mass)
    representatives = _number_equal_texts(texts)
    places = places_of(representatives)

    # where no log-probability counts, counting responses gives the same, and is quicker
    counted_logs = log_probs if any(by_probability.values()) else None
    rows = cluster_distributions(
        places[np.asarray(labels)], agents, log_probs=counted_logs, n_clusters=places.size
    )
    return ClusteredResponses(
        responses=responses,
        labels=labels,
        names=names,
        agents=agents,
        weights=normalized,
        counts_by_probability=by_probability,
        shares=mass,
        texts=texts,
        representatives=representatives,
        places=places,
        rows=rows,
        distributions=rows[:, places],
    )


def weighed_agents(
    responses: Sequence[Response], weights: Mapping[str, float] | None
) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Returns the agents' names by first appearance, the place of each response's agent there, and their weights."""
    places: dict[str, int] = {}
    agents = [places.setdefault(response["agent"], len(places)) for response in responses]
    names = list(places)
    unnormalized = [1.0 if weights is None else weights[name] for name in names]
    total = math.fsum(unnormalized)
    must = '"weights" must hold one above 0 for the agents that answered'
    require(total > 0, must, names, "Raise one")
    return names, np.array(agents), np.array(unnormalized) / total


def log_probabilities(
    responses: Sequence[Response], weighting: Weighting
) -> tuple[np.ndarray, dict[str, bool]]:
    """Returns length-normalised log-probabilities, 0 for each response of an agent that counts by frequency.

    Also returns which agents count by probability. A log-probability that is not finite counts as none.
    """
    one_of(weighting, '"weighting"', WEIGHTINGS)
    normalized = _normalized(responses)
    names = [response["agent"] for response in responses]
    lacking = {name for name, value in zip(names, normalized, strict=True) if value is None}
    if weighting == "probability" and lacking:
        in_order = [name for name in dict.fromkeys(names) if name in lacking]
        raise ValueError(
            '"probability" weighting needs a log-probability for every response; got none for some of '
            f'{", ".join(in_order)}. Use "auto" or "frequency"'
        )

    counts_by_probability: dict[str, bool] = {}
    for name in dict.fromkeys(names):
        counts_by_probability[name] = weighting != "frequency" and name not in lacking

    log_probs = np.zeros(len(names))
    if any(counts_by_probability.values()):
        for place, value in enumerate(normalized):
            if value is not None and counts_by_probability[names[place]]:
                log_probs[place] = value
    return log_probs, counts_by_probability


def _normalized(responses: Sequence[Response]) -> list[float | None]:
    """Returns logprob / n_tokens of each response; None where either is not known, or it is not finite."""
    normalized: list[float | None] = []
    for response in responses:
        logprob = response["logprob"]
        n_tokens = response["n_tokens"]
        value = None
        if logprob is not None and math.isfinite(logprob) and n_tokens:
            value = logprob / n_tokens
        normalized.append(value)
    return normalized


def stated_confidences(responses: Sequence[Response]) -> dict[str, list[float | None]]:
    """Returns what each agent stated in each of its responses, in [0, 1]; {} if no agent stated any.

    What is no number in [0, 1] was not stated, and is None.
    """
    values = [response.get("confidence") for response in responses]
    # mostly no agent was asked for one
    if values.count(None) == len(values):
        return {}
    stated: dict[str, list[float | None]] = {}
    for response, value in zip(responses, values, strict=True):
        known = None
        if value is not None and is_number(value) and 0.0 <= value <= 1.0:
            known = float(value)
        stated.setdefault(response["agent"], []).append(known)
    return stated


def token_confidences(responses: Sequence[Response]) -> dict[str, float]:
    """Returns the mean of exp(logprob / n_tokens), in [0, 1], of each agent of which all responses have one."""
    logprobs = [response["logprob"] for response in responses]
    # mostly the backends give none
    if logprobs.count(None) == len(logprobs):
        return {}
    by_agent: dict[str, list[float | None]] = {}
    for response, value in zip(responses, _normalized(responses), strict=True):
        by_agent.setdefault(response["agent"], []).append(value)

    confidences: dict[str, float] = {}
    for name, values in by_agent.items():
        known = [value for value in values if value is not None]
        if len(known) == len(values):
            probabilities = [math.exp(min(value, 0.0)) for value in known]
            confidences[name] = math.fsum(probabilities) / len(known)
    return confidences


def shares(log_probs: np.ndarray, agents: np.ndarray) -> np.ndarray:
    """Returns each response's part of its agent's distribution; an agent's parts sum to 1."""
    if not log_probs.any():
        # each response counts 1
        n_responses = np.bincount(agents)
        return np.asarray(1.0 / n_responses[agents])
    # relative to the highest of the agent, so that no probability underflows
    highest = np.full(agents.max() + 1, -np.inf)
    np.maximum.at(highest, agents, log_probs)
    unnormalized = np.exp(log_probs - highest[agents])
    totals = np.bincount(agents, unnormalized)
    return np.asarray(unnormalized / totals[agents])


def rank_texts(support: Iterable[tuple[str, float]]) -> list[tuple[str, float]]:
    """Returns texts with their support, the best supported first; equal support goes by text."""

    def rank(pair: tuple[str, float]) -> tuple[int, str]:
        text, value = pair
        return -round(value / TIE), text

    return sorted(support, key=rank)


def most_probable(texts: Sequence[str | None], response_shares: np.ndarray) -> str:
    """Returns the text with the largest share, its repetitions together; of equal shares the first by text.

    None does not count; there is at least one text.
    """
    shares_of: dict[str, list[float]] = defaultdict(list)
    for text, share in zip(texts, response_shares.tolist(), strict=True):
        if text is not None:
            shares_of[text.strip()].append(share)
    sums = {text: math.fsum(shares) for text, shares in shares_of.items()}
    least_leading = max(sums.values()) - TIE
    return min(text for text, share in sums.items() if share > least_leading)


def places_of(names: Sequence[str]) -> np.ndarray:
    """Returns the place of each name in sorted order; equal names stay in the order given.

    Clusters numbered by the places of their representatives enter sums and random draws in an order that depends on
    texts alone.
    """
    in_order = np.argsort(np.array(names, dtype=object), kind="stable")
    return np.argsort(in_order)  # the inverse of the permutation


def cluster_texts(
    responses: Sequence[Response], labels: Sequence[int], response_shares: np.ndarray
) -> list[str]:
    """Returns the most probable text of each cluster; `response_shares` are the parts of the ensemble mean."""
    members: list[list[int]] = [[] for _ in range(max(labels) + 1)]
    for place, label in enumerate(labels):
        members[label].append(place)
    response_texts = [response_text(response).strip() for response in responses]
    texts_of_clusters: list[str] = []
    for places in members:
        texts = [response_texts[place] for place in places]
        if not texts:
            texts_of_clusters.append("")
        elif len(set(texts)) == 1:
            # mostly, and then it is quicker
            texts_of_clusters.append(texts[0])
        else:
            texts_of_clusters.append(most_probable(texts, response_shares[places]))
    return texts_of_clusters


def _number_equal_texts(texts: Sequence[str]) -> list[str]:
    """Returns the texts, numbered where two clusters have the same one."""
    names: list[str] = []
    for cluster, text in enumerate(texts):
        name = text
        while name in names:
            name = f"{name} ({cluster})"
        names.append(name)
    return names
