"""Owns the learned gates of answers and of proposals: a probability of error, applied with NumPy alone."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coe_agents.actions.proposals import called_tools
from coe_agents.checks import are_finite, require
from coe_agents.policy.measurement import Measurement
from coe_agents.uncertainty.ties import shares_lead


@dataclass(frozen=True, slots=True)
class LearnedGate:
    """A logistic regression of whether the answer that trust in the agents chooses is wrong.

    Its methods raise a `KeyError` for an agent that was not measured.

    With p = sum_i w_i p_i the trust-weighted mean, c its leading cluster, H_3 = -log(sum_c p(c)^3) / 2 its Renyi
    entropy of order 3 in nats, and s_i = p_i(c) the agents' support of c:

        P(wrong) = 1 / (1 + exp(-(intercept + slope log(1 + H_3) + sum_i deviation_i (s_i - mean_j s_j) + C)))

    C is 0 where the agents' confidences did not improve the gate. Else it is the sum, over the agents and over their
    stated and token confidences q_i, of stated_i or token_i times (2 s_i - 1) (q_i - 0.85): confidence in c counts for
    it, and confidence in something else against it. Where an agent has no such confidence, its term is no_stated_i or
    no_token_i.

    Attributes:
        agents: The agents that it reads; each must have been measured.
        weights: Their trust w, in [0, 1], summing to 1; all equal where trust was not learned.
        slope: Of log(1 + H_3).
        deviations: One per agent; all 0 where the agents' deviations did not improve the gate.
        intercept: In log-odds.
        stated: Of the agents' stated confidences; () where they are not read.
        token: Of their token confidences, in the same way.
        no_stated: The terms of agents that stated none.
        no_token: The terms of agents without a token confidence.
    """

    agents: tuple[str, ...]
    weights: tuple[float, ...]
    slope: float
    deviations: tuple[float, ...]
    intercept: float
    stated: tuple[float, ...] = ()
    token: tuple[float, ...] = ()
    no_stated: tuple[float, ...] = ()
    no_token: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        terms = [*self.stated, *self.token, *self.no_stated, *self.no_token]
        numbers = [*self.weights, *self.deviations, self.slope, self.intercept, *terms]
        require(are_finite(numbers), "a gate must hold finite numbers", numbers, "Calibrate again")
        for given, missing in ((self.stated, self.no_stated), (self.token, self.no_token)):
            if len(given) != len(missing) or len(given) not in (0, len(self.agents)):
                must = "a gate must have two terms of a confidence for each agent, or none"
                raise ValueError(f"{must}; got {len(given)} and {len(missing)}. Calibrate again")
        if not self.agents or {len(self.weights), len(self.deviations)} != {len(self.agents)}:
            raise ValueError(
                f"a gate over {len(self.agents)} agents must have as many weights and deviations, at least one; "
                f"got {len(self.weights)} and {len(self.deviations)}. Calibrate again"
            )
        are_shares = min(self.weights) >= 0.0 and abs(sum(self.weights) - 1.0) <= 1e-6
        require(are_shares, '"weights" of a gate must be at least 0 and sum to 1', self.weights, "Calibrate again")

    def choose_cluster(self, measurement: Measurement) -> int | None:
        """Returns the index of the trusted cluster in `representatives`; None where clusters tie under the weights."""
        leaders = np.flatnonzero(shares_lead(np.array(self.weights) @ distributions_of(measurement, self.agents)))
        return int(leaders[0]) if leaders.size == 1 else None

    def uncertainty(self, measurement: Measurement) -> float:
        """Returns the estimated probability of a wrong answer, in [0, 1]; higher = less sure.

        Where clusters tie, the agents' support is the mean over the tied clusters.
        """
        log_entropy, support = gate_features(distributions_of(measurement, self.agents), np.array(self.weights))
        log_odds = (
            self.intercept + self.slope * log_entropy + float(np.array(self.deviations) @ (support - support.mean()))
        )
        stated, token = confidence_features(measurement, self.agents, support)
        for given, missing, values in ((self.stated, self.no_stated, stated), (self.token, self.no_token, token)):
            if given:
                log_odds += float(np.where(np.isnan(values), missing, np.array(given) * values).sum())
        return to_probability(log_odds)


def distributions_of(measurement: Measurement, agents: Sequence[str]) -> np.ndarray:
    """The agents' probabilities of each cluster, shape `(n_agents, n_clusters)`."""
    rows = (measurement.agents[name].distribution for name in agents)
    return np.array([[row.get(text, 0.0) for text in measurement.representatives] for row in rows])


def gate_features(distributions: np.ndarray, weights: np.ndarray) -> tuple[float, np.ndarray]:
    """The features of a `LearnedGate`: log(1 + H_3) of the weighted mean, and each agent's support.

    Args:
        distributions: Shape `(n_agents, n_clusters)`.
        weights: Shape `(n_agents,)`, summing to 1.

    Returns:
        A float of at least 0, and shape `(n_agents,)`: each agent's support for the leading cluster; the mean over the
        clusters that tie within 1e-9.

    >>> gate_features(np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([0.5, 0.5]))[1]
    array([1. , 0.5])
    """
    mean = weights @ distributions
    entropy = max(0.0, -0.5 * math.log(float((mean**3).sum())))
    return math.log1p(entropy), distributions[:, shares_lead(mean)].mean(axis=1)


def confidence_features(measurement: Measurement, agents: Sequence[str], support: np.ndarray) -> np.ndarray:
    """Returns (2 s - 1) (q - 0.85) of each agent, shape `(2, n_agents)`: of its stated and of its token confidence q.

    s is its support, shape `(n_agents,)`. NaN where it has no such confidence.
    """
    own = [measurement.agents[name] for name in agents]
    known = [[agent.confidence for agent in own], [agent.token_confidence for agent in own]]
    return np.asarray((2.0 * support - 1.0) * (np.array(known, dtype=np.float64) - 0.85))


def to_probability(log_odds: float) -> float:
    """Returns 1 / (1 + exp(-log_odds)); beyond 500 nothing changes."""
    return 1.0 / (1.0 + math.exp(-min(max(log_odds, -500.0), 500.0)))


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
    """Returns what a `SupportGate` reads, shape `(2 len(others) + 3,)`, all in [0, 1]."""
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
