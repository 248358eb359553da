"""Owns the estimators of whether one agent's proposal is wrong; higher = less sure.

They exist where `Statistics.proposer` names an agent: its first response is the proposal.
"""

from coe_agents.evaluation.scoring.statistics import Statistics


def support(statistics: Statistics) -> float | None:
    """1 - the mean over the other agents of their probability of the proposal's cluster, in [0, 1].

    CoE does not know whose answer is judged; this does. Higher = less sure. None if there is no other agent, or no
    proposal.
    """
    found = statistics.measurement.proposal_support.get(statistics.proposer or "")
    return None if found is None else 1.0 - found


def own_entropy(statistics: Statistics) -> float | None:
    """Semantic entropy of the proposer's own responses, in nats; higher = less sure.

    0 of an agent with one response, which then separates nothing (an AUROC of 0.5). None if it gave none.
    """
    entropies = dict(zip(statistics.names, statistics.entropies, strict=True))
    return entropies.get(statistics.proposer or "")
