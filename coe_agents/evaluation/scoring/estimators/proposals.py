"""Owns the estimators of whether one agent's proposal is wrong; higher = less sure.

They exist where `Statistics.proposer` names an agent: its first response is the proposal.
"""

import numpy as np

from coe_agents.evaluation.scoring.score_names import proposal_estimator
from coe_agents.evaluation.scoring.statistics import Statistics


@proposal_estimator("Support of the others", "1 - the other agents' mean probability of what is proposed")
def support(statistics: Statistics) -> float | None:
    """1 - the mean over the other agents of their probability of the proposal's cluster, in [0, 1].

    CoE does not know whose answer is judged; this does. Higher = less sure. None if there is no other agent, or no
    proposal.
    """
    place = statistics.proposal
    others = [row for row, name in enumerate(statistics.names) if name != statistics.proposer]
    if place is None or not others:
        return None
    return 1.0 - float(np.mean(statistics.distributions[others, statistics.labels[place]]))


@proposal_estimator("Entropy of the proposer", "semantic entropy of the proposer's own responses")
def own_entropy(statistics: Statistics) -> float | None:
    """Semantic entropy of the proposer's own responses, in nats; higher = less sure.

    0 of an agent with one response, which then separates nothing (an AUROC of 0.5). None if it gave none.
    """
    agent = statistics.measurement.agents.get(statistics.proposer or "")
    return None if agent is None else agent.entropy
