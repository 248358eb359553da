"""Owns how reports show the built-in scores: a group, a label and an explanation for each."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from coe_agents.policy.weighted_vote import CONFIDENCE_VOTE_SHARE, TRUSTED_VOTE_SHARE, VOTE_SHARE


class _ScoreName(NamedTuple):
    label: str
    group: str
    explanation: str


BEST_SINGLE_MODEL = "best_single_model"
SCORES_OF_SETS = (BEST_SINGLE_MODEL, TRUSTED_VOTE_SHARE)
"""The scores that no estimator computes: they need all questions, not one."""

_PROPOSAL, _OTHER = "The judged proposal", "Other estimators"
_TABLE: Mapping[str, Mapping[str, tuple[str, str]]] = {
    _PROPOSAL: {
        "support": (
            "Support of the others",
            "1 - the other agents' mean probability of what is proposed",
        ),
        "own_entropy": (
            "Entropy of the proposer",
            "semantic entropy of the proposer's own responses",
        ),
    },
    "Collaborative Entropy and its parts": {
        "coe": ("CoE", "Collaborative Entropy: the aleatoric plus the epistemic part, in nats"),
        "coe_js": ("CoE, Jensen-Shannon", "CoE with this divergence between the agents"),
        "coe_hellinger": ("CoE, Hellinger", "CoE with this distance between the agents"),
        "coe_wasserstein": (
            "CoE, Wasserstein",
            "CoE with this distance; meanings are 1 apart without an entailment model",
        ),
        "aleatoric": (
            "Aleatoric part of CoE",
            "how unsure each agent is by itself; the mean of agents",
        ),
        "epistemic": ("Epistemic part of CoE", "how much the agents differ from one another"),
    },
    "Entropies": {
        "semantic_entropy": (
            "Semantic entropy, mean of agents",
            "entropy of each agent's meanings; equals the aleatoric part",
        ),
        "pooled_semantic_entropy": (
            "Semantic entropy, pooled",
            "entropy of the meanings of all responses, as if of one agent",
        ),
        BEST_SINGLE_MODEL: (
            "Semantic entropy, best agent",
            "of the agent that ranked answers best on the other half",
        ),
    },
    "Agreement": {
        VOTE_SHARE: ("Vote share", "1 - the leading meaning's share of the group"),
        TRUSTED_VOTE_SHARE: (
            "Trusted vote share",
            "vote share in which agents count by how far the others agree with them",
        ),
        CONFIDENCE_VOTE_SHARE: (
            "Vote share by confidence",
            "vote share in which agents count by how sure they are",
        ),
        "self_consistency": (
            "Self-consistency",
            "1 - the share of each agent's own most frequent meaning, mean of agents",
        ),
        "disagreement": (
            "Disagreement between agents",
            "chance that responses of two agents differ",
        ),
        "pooled_disagreement": (
            "Disagreement, pooled",
            "chance that any two responses of the group differ",
        ),
    },
    "Log-probabilities": {
        "regular_entropy": (
            "Regular entropy",
            "mean negative log-probability of whole responses, whatever they mean",
        ),
        "length_normalised_entropy": (
            "Regular entropy, per token",
            "mean negative log-probability per token",
        ),
    },
    "Stated by the agents": {
        "p_false": ("P(False)", "the probability that an agent gives to its response being false"),
        "verbal_confidence": (
            "Verbal confidence",
            "1 - the confidence that an agent states in words",
        ),
    },
    _OTHER: {},
}
"""By group and score, in reading order: what reports call it, and what it measures, in a line."""

_NAMES = {
    score: _ScoreName(label, group, explanation)
    for group, scores in _TABLE.items()
    for score, (label, explanation) in scores.items()
}
PROPOSAL_SCORES = tuple(_TABLE[_PROPOSAL])
"""The scores of whether one agent's proposal is wrong."""
GROUP_SCORES = tuple(score for score in _NAMES if score not in (*PROPOSAL_SCORES, *SCORES_OF_SETS))
"""All other scores that an estimator computes."""

BASELINE = (
    "coe",
    "epistemic",
    "semantic_entropy",
    "best_single_model",
    "vote_share",
    "regular_entropy",
    "p_false",
)
"""The scores that reports show first."""


def name_of(score: str) -> _ScoreName:
    """Returns how a score is shown; one that is not built in keeps its own name."""
    return _NAMES.get(score) or _ScoreName(
        score, _OTHER, "registered by another package or by the caller"
    )


def group_scores(scores: Iterable[str]) -> dict[str, list[str]]:
    """Returns scores by the group in which they are shown, groups and members in reading order."""
    places = {name: place for place, name in enumerate(_NAMES)}
    groups: dict[str, list[str]] = {group: [] for group in _TABLE}
    for score in sorted(scores, key=lambda name: places.get(name, len(places))):
        groups[name_of(score).group].append(score)
    return {group: names for group, names in groups.items() if names}
