"""Owns the support of a proposal by the other agents: `SupportPolicy`, and `LearnedSupport` of calibrated policies."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from coe_agents._removed import refuses_removed
from coe_agents.actions.canonical import tool_key
from coe_agents.actions.proposals import called_tools
from coe_agents.checks import are_finite, integer, require, share
from coe_agents.measurement.measurement import Measurement, leading_cluster
from coe_agents.measurement.weighted_vote import distributions_of
from coe_agents.policy.base import Decision, Otherwise, check_otherwise, count_votes, without_tie
from coe_agents.uncertainty._checks import FloatArray
from coe_agents.uncertainty.ties import TIE


class SupportPolicy:
    """Answers if the support of the judged proposal is high enough; otherwise the action is `otherwise`.

    The support of an agent's proposal is the mean probability that the *other* agents give to its cluster, in [0, 1]:
    `measurement.proposals.support`. It is compared for the agent whose proposal is judged:
    `measurement.proposals.proposer`, which a `CoECouncil` sets, or `proposer`. Where neither is known, the group
    decides together, and what is compared is the share of the ensemble mean that the leading cluster has.

    An agent votes for what more than half of its own responses propose. In a council, an agent or a response that
    failed counts as one that proposed something else.

    Whether to call at all is another question than which call. Models that are shown tools tend to call one, all of
    them, also where none is right: that they agree on a call does not show that a call is right. Choose the thresholds
    on labelled proposals (`coe-agents calibrate --proposer`), apart for those that call nothing.

    Args:
        min_support: The least support, in [0, 1].
        min_votes: How many agents other than its proposer must vote for the proposal; by default no number of them.
        no_call_min_support: The least support of a proposal that calls nothing; `min_support` by default.
        tools: The least support by tool. Of several tools that a proposal calls, the highest counts, and of a tool that
            is not named `min_support`.
        proposer: The agent whose proposal is judged, where the measurement does not say.
        otherwise: "abstain", "escalate" or "another_round".

    Raises:
        ValueError: If a threshold is not in [0, 1], or `min_votes` is below 1.

    Example:
        >>> from coe_agents.policy import measure
        >>> from coe_agents.testing import create_response
        >>> said = [create_response(name, text) for name, text in zip("abc", ("Rome", "Rome", "Paris"))]
        >>> measurement = measure(said, [0, 0, 1], proposer="a")
        >>> SupportPolicy(0.5).decide(measurement, round=0, max_rounds=1).reason
        'the other agents support the proposal with 0.50, at least 0.5'
    """

    @refuses_removed
    def __init__(
        self,
        min_support: float = 0.5,
        *,
        min_votes: int | None = None,
        no_call_min_support: float | None = None,
        tools: Mapping[str, float] | None = None,
        proposer: str | None = None,
        otherwise: Otherwise = "abstain",
    ) -> None:
        check = partial(share, advice="Choose it on labelled proposals")
        self.min_support = check(min_support, '"min_support" of SupportPolicy')
        self.no_call_min_support = self.min_support
        if no_call_min_support is not None:
            where = '"no_call_min_support" of SupportPolicy'
            self.no_call_min_support = check(no_call_min_support, where)
        self.tools: dict[str, float] = {}
        for name, least in (tools or {}).items():
            self.tools[tool_key(name)] = check(least, f'"tools" ({name}) of SupportPolicy')
        if min_votes is not None:
            advice = "Omit it to compare the support alone"
            integer(min_votes, '"min_votes" of SupportPolicy', least=1, advice=advice)
        self.min_votes = min_votes
        self.proposer = proposer
        self.otherwise = check_otherwise(
            otherwise, policy="SupportPolicy", instead="To answer always, set 0"
        )

    def decide(self, measurement: Measurement, *, round: int, max_rounds: int) -> Decision:
        """Returns "answer" with the judged proposal, or `otherwise`.

        An agent without a usable proposal, or without other agents, has no support. Where the group decides together,
        several answers that share the lead are not answered.
        """
        proposals = measurement.proposals
        proposer = proposals.proposer or self.proposer
        leading_place = leading_cluster(measurement)
        leading = measurement.representatives[leading_place]
        if proposer is None:
            support = measurement.support[leading_place]
            proposal = leading
            whose = "the group supports it"
        elif proposer not in proposals.support:
            reason = f"no other agent judges what {proposer!r} proposes"
            return Decision(self.otherwise, None, reason, cause="votes")
        else:
            support = proposals.support[proposer]
            proposal = proposals.by_agent[proposer]
            whose = "the other agents support the proposal"

        least = self._least(proposal, is_action=proposals.calls is not None)
        if support < least - TIE:
            reason = f"{whose} with {support:.2f}, less than {least:g}"
            return Decision(self.otherwise, None, reason, cause="uncertain")

        reasons: list[str] = []
        if least > 0 or self.min_votes is None:
            reasons.append(f"{whose} with {support:.2f}, at least {least:g}")
        if self.min_votes is not None:
            is_enough, votes = count_votes(measurement, proposal, self.min_votes, proposer=proposer)
            if not is_enough:
                return Decision(self.otherwise, None, votes, cause="votes")
            reasons.append(votes)

        answer = measurement.answer if proposal == leading else proposal
        answered = Decision(
            "answer",
            answer,
            "; ".join(reasons),
            trusted_answer=proposer is not None,
            cause="confident",
        )
        return without_tie(answered, measurement, self)

    def _least(self, proposal: str, *, is_action: bool) -> float:
        if not self.tools and self.no_call_min_support == self.min_support:  # mostly
            return self.min_support
        names = called_tools(proposal) if is_action else None
        if names is None:
            return self.min_support
        if not names:
            return self.no_call_min_support
        return max(self.tools.get(name, self.min_support) for name in names)

    def __repr__(self) -> str:
        return f"SupportPolicy({self.min_support!r}, min_votes={self.min_votes!r}, otherwise={self.otherwise!r})"


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
        n_agents = len(self.agents)
        n_same = len(self.same)
        n_nothing = len(self.nothing)
        is_complete = n_same == n_agents and n_nothing == n_agents
        if not is_complete or not are_finite([*self._slopes(), self.intercept]):
            raise ValueError(
                f"a learned support by {n_agents} agents must have as many finite slopes of each kind; got "
                f"{n_same} and {n_nothing}. Calibrate again"
            )

    def uncertainty(self, measurement: Measurement) -> float:
        """Returns the estimated probability that the proposal is wrong, in [0, 1]; higher = less sure."""
        proposer = measurement.proposals.proposer or self.proposer
        features = support_features(measurement, proposer, self.agents)
        slopes = np.array(self._slopes())
        log_odds = self.intercept + float(slopes @ features)
        bounded = min(max(log_odds, -_MOST_LOG_ODDS), _MOST_LOG_ODDS)
        return 1.0 / (1.0 + math.exp(-bounded))

    def _slopes(self) -> list[float]:
        return [*self.same, *self.nothing, self.calls_nothing]


def support_features(measurement: Measurement, proposer: str, others: Sequence[str]) -> FloatArray:
    """Returns what a `LearnedSupport` reads, shape `(2 len(others) + 1,)`, all in [0, 1]."""
    representatives = measurement.representatives
    proposed = representatives.index(measurement.proposals.by_agent[proposer])
    calls_nothing = np.zeros(len(representatives), dtype=np.bool_)
    if measurement.proposals.calls is not None:
        for cluster, text in enumerate(representatives):
            calls_nothing[cluster] = called_tools(text) == []

    shares = distributions_of(measurement, others)
    same = shares[:, proposed]
    nothing = shares[:, calls_nothing].sum(axis=1)
    return np.array([*same, *nothing, float(calls_nothing[proposed])])
