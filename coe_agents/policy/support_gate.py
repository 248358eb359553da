"""Owns the learned support: whose agreement with a proposal counts how much, applied with NumPy alone."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coe_agents.actions.proposals import called_tools
from coe_agents.checks import are_finite, require
from coe_agents.policy.gate import distributions_of, to_probability
from coe_agents.policy.measurement import Measurement


@dataclass(frozen=True, slots=True)
class SupportGate:
    """A logistic regression of whether one agent's proposal is wrong, from what the other agents propose.

    With p_j the distribution of agent j over the clusters, c the cluster of the proposal, and means over the others:

        log-odds = intercept + sum_j same_j p_j(c) + sum_j nothing_j p_j(no call) + calls_nothing [c is no call]
                   + rival max over c' != c of mean_j p_j(c') + tool mean_j p_j(same tools)

    Of texts, "no call" and "same tools" are 0. `uncertainty` raises a `KeyError` for an agent that was not measured.

    Attributes:
        proposer: The agent whose first response is the proposal, unless the measurement names another.
        agents: The other agents that it reads.
        same: By other agent: the slope of its probability of the same action.
        nothing: By other agent: the slope of its probability of calling nothing.
        rival: The slope of the largest share that another action has.
        tool: The slope of the share that calls the same tools.
        calls_nothing: What is added where the proposal calls nothing.
        intercept: In log-odds.
    """

    proposer: str
    agents: tuple[str, ...]
    same: tuple[float, ...]
    nothing: tuple[float, ...]
    rival: float
    tool: float
    calls_nothing: float
    intercept: float

    def __post_init__(self) -> None:
        must = '"agents" of a learned support must be others than the proposer, at least one'
        require(bool(self.agents) and self.proposer not in self.agents, must, self.agents, "Calibrate again")
        if {len(self.same), len(self.nothing)} != {len(self.agents)} or not are_finite(self._slopes()):
            raise ValueError(
                f"a learned support by {len(self.agents)} agents must have as many finite slopes of each kind; got "
                f"{len(self.same)} and {len(self.nothing)}. Calibrate again"
            )

    def uncertainty(self, measurement: Measurement) -> float:
        """Returns the estimated probability that the proposal is wrong, in [0, 1]; higher = less sure."""
        features = support_features(measurement, measurement.proposer or self.proposer, self.agents)
        return to_probability(self.intercept + float(np.array(self._slopes()[:-1]) @ features))

    def _slopes(self) -> list[float]:
        return [*self.same, *self.nothing, self.rival, self.tool, self.calls_nothing, self.intercept]


def support_features(measurement: Measurement, proposer: str, others: Sequence[str]) -> np.ndarray:
    """Returns what a `SupportGate` reads, shape `(2 len(others) + 3,)`, all in [0, 1].

    Raises:
        KeyError: An agent was not measured.
    """
    proposal = measurement.representatives.index(measurement.proposals[proposer])
    shares = distributions_of(measurement, others)
    tools = [called_tools(text) for text in measurement.representatives] if measurement.calls is not None else []
    nothing = np.array([names == [] for names in tools] or [False] * shares.shape[1])
    alike = np.array([names is not None and names == tools[proposal] for names in tools] or [False] * shares.shape[1])
    mean = shares.mean(axis=0)
    rivals = np.delete(mean, proposal)
    return np.array(
        [
            *shares[:, proposal],
            *shares[:, nothing].sum(axis=1),
            rivals.max(initial=0.0),
            mean[alike].sum(),
            float(nothing[proposal]),
        ]
    )
