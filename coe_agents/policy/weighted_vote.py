"""Owns the one score: the group's vote share, with the agents' weights and how sure they are.

    s = sum_i w_i k_i p_i(c*) / sum_i w_i

p_i(c) is agent i's probability of cluster c, w_i its weight, k_i its confidence, and c* the cluster with the most. The
uncertainty is 1 - s, in [0, 1].
"""

import math
from collections.abc import Mapping, Sequence
from typing import Literal, get_args

import numpy as np

from coe_agents.policy.measurement import Measurement
from coe_agents.uncertainty._checks import FloatArray
from coe_agents.uncertainty.ties import shares_lead

WeightsFrom = Literal["equal", "agreement", "learned"]
"""Where the weights of the score are from: all 1, how far the agents agree, or labels."""
WEIGHTS_FROM: tuple[WeightsFrom, ...] = get_args(WeightsFrom)

VOTE_SHARE = "vote_share"
"""The score with k_i = 1."""
CONFIDENCE_VOTE_SHARE = "confidence_vote_share"
"""The score with the agents' confidences."""
TRUSTED_VOTE_SHARE = "trusted_vote_share"
"""The score with k_i = 1 and weights by agreement, where c* leads with equal weights."""
VOTE_SHARES = (VOTE_SHARE, CONFIDENCE_VOTE_SHARE, TRUSTED_VOTE_SHARE)


def distributions_of(measurement: Measurement, agents: Sequence[str]) -> FloatArray:
    """The agents' probabilities of each cluster, shape `(n_agents, n_clusters)`."""
    rows = []
    for name in agents:
        distribution = measurement.agents[name].distribution
        rows.append([distribution.get(text, 0.0) for text in measurement.representatives])
    return np.array(rows)


def fill_confidences(stated: Sequence[float | None], token: Sequence[float | None]) -> FloatArray:
    """Returns k of each agent to one question, shape `(n_agents,)`, in [0, 1].

    It is the product of what the agent stated and its mean token probability, as far as these are known. Of an agent of
    which neither is known it is the mean of the others' k, and 1 where none is known.

    >>> fill_confidences([0.5, None, None], [0.5, 0.75, None])
    array([0.25, 0.75, 0.5 ])
    """
    known = np.full(len(stated), np.nan)
    for place, parts in enumerate(zip(stated, token, strict=True)):
        values = [value for value in parts if value is not None]
        if values:
            known[place] = math.prod(values)
    is_known = ~np.isnan(known)
    mean = known[is_known].mean() if is_known.any() else 1.0
    return np.where(is_known, known, mean)


def confidences_of(measurement: Measurement, agents: Sequence[str]) -> FloatArray:
    """Returns k of each agent: see `fill_confidences`."""
    measured = [measurement.agents[name] for name in agents]
    stated = [agent.confidence if agent.states_all else None for agent in measured]
    return fill_confidences(stated, [agent.token_confidence for agent in measured])


def weighted_votes(
    measurement: Measurement, weights: Mapping[str, float] | None, *, score: str = VOTE_SHARE
) -> FloatArray:
    """Returns sum_i w_i k_i p_i(c) / sum_i w_i of each cluster c, shape `(n_clusters,)`.

    Args:
        measurement: In which only agents that answered are.
        weights: Of agents by name; an agent without one does not count. None: those of the measurement.
        score: "confidence_vote_share" reads confidences; any other one has k_i = 1.
    """
    agents = list(measurement.agents)
    # equal weights of a measurement are {}
    by_name = (measurement.weights or dict.fromkeys(agents, 1.0)) if weights is None else weights
    counted = np.array([by_name.get(name, 0.0) for name in agents])
    total = counted.sum()
    if not total > 0.0:
        return np.zeros(len(measurement.representatives))
    if score == CONFIDENCE_VOTE_SHARE:
        counted = counted * confidences_of(measurement, agents)
    return np.asarray(counted @ distributions_of(measurement, agents) / total)


def find_leaders(votes: FloatArray) -> list[int]:
    """Returns the clusters with the most votes: one, or several that tie; none if nobody votes."""
    return np.flatnonzero(shares_lead(votes)).tolist() if votes.any() else []
