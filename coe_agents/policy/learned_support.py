"""Owns learned support: the probability that an agent's proposal is wrong, from what the others propose."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coe_agents.actions.proposals import called_tools
from coe_agents.checks import are_finite, require
from coe_agents.policy.measurement import Measurement
from coe_agents.policy.weighted_vote import distributions_of
from coe_agents.uncertainty._checks import FloatArray

_MOST_LOG_ODDS = 500.0
"""Beyond it nothing changes, and `exp` would overflow."""


@dataclass(frozen=True, slots=True)
class LearnedSupport:
    """A logistic regression of whether one agent's proposal is wrong, from what the other agents propose.

    With p_j the distribution of agent j over the clusters, and c the cluster of the proposal:

        log-odds = intercept + sum_j same_j p_j(c) + sum_j nothing_j p_j(no call) + calls_nothing [c is no call]

    Of texts, "no call" is 0. `uncertainty` raises a `KeyError` for an agent that was not measured.

    Attributes:
        proposer: The agent whose first response is the proposal, unless the measurement names another.
        agents: The other agents that it reads.
        same: By other agent: the slope of its probability of the same action.
        nothing: By other agent: the slope of its probability of calling nothing.
        calls_nothing: What is added where the proposal calls nothing.
        intercept: In log-odds.
    """

    proposer: str
    agents: tuple[str, ...]
    same: tuple[float, ...]
    nothing: tuple[float, ...]
    calls_nothing: float
    intercept: float

    def __post_init__(self) -> None:
        must = '"agents" of a learned support must be others than the proposer, at least one'
        is_of_others = bool(self.agents) and self.proposer not in self.agents
        require(is_of_others, must, self.agents, "Calibrate again")
        sizes = {len(self.same), len(self.nothing)}
        if sizes != {len(self.agents)} or not are_finite([*self._slopes(), self.intercept]):
            raise ValueError(
                f"a learned support by {len(self.agents)} agents must have as many finite slopes of each kind; got "
                f"{len(self.same)} and {len(self.nothing)}. Calibrate again"
            )

    def uncertainty(self, measurement: Measurement) -> float:
        """Returns the estimated probability that the proposal is wrong, in [0, 1]; higher = less sure."""
        features = support_features(measurement, measurement.proposer or self.proposer, self.agents)
        log_odds = self.intercept + float(np.array(self._slopes()) @ features)
        bounded = min(max(log_odds, -_MOST_LOG_ODDS), _MOST_LOG_ODDS)
        return 1.0 / (1.0 + math.exp(-bounded))

    def _slopes(self) -> list[float]:
        return [*self.same, *self.nothing, self.calls_nothing]


def support_features(measurement: Measurement, proposer: str, others: Sequence[str]) -> FloatArray:
    """Returns what a `LearnedSupport` reads, shape `(2 len(others) + 1,)`, all in [0, 1]."""
    proposal = measurement.representatives.index(measurement.proposals[proposer])
    shares = distributions_of(measurement, others)
    calls_nothing = np.zeros(len(measurement.representatives), dtype=np.bool_)
    if measurement.calls is not None:
        for cluster, text in enumerate(measurement.representatives):
            calls_nothing[cluster] = called_tools(text) == []
    same = shares[:, proposal]
    nothing = shares[:, calls_nothing].sum(axis=1)
    return np.array([*same, *nothing, float(calls_nothing[proposal])])
