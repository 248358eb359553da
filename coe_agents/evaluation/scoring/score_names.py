"""Owns how scores are shown to readers: a label, a group and an explanation for each name of `score --json`."""

from collections.abc import Iterable
from typing import NamedTuple


class ScoreName(NamedTuple):
    """How a score is shown."""

    label: str
    group: str
    explanation: str


_COE, _ENTROPIES, _AGREEMENT, _GRAPHS = "Collaborative Entropy and its parts", "Entropies", "Agreement", "Graphs"
_LIKELIHOOD, _STATED, _OTHER = "Log-probabilities", "Stated by the agents", "Other estimators"

_NAMES = {
    "coe": ScoreName("CoE", _COE, "Collaborative Entropy: the aleatoric plus the epistemic part, in nats"),
    "epistemic": ScoreName("Epistemic part of CoE", _COE, "how much the agents differ from one another"),
    "aleatoric": ScoreName("Aleatoric part of CoE", _COE, "how unsure each agent is by itself; the mean of agents"),
    "coe_js": ScoreName("CoE, Jensen-Shannon", _COE, "CoE with this divergence between the agents"),
    "coe_hellinger": ScoreName("CoE, Hellinger", _COE, "CoE with this distance between the agents"),
    "coe_wasserstein": ScoreName(
        "CoE, Wasserstein", _COE, "CoE with this distance; meanings are 1 apart without an entailment model"
    ),
    "coe_by_frequency": ScoreName("CoE, by frequency", _COE, "CoE, each response counting 1"),
    "coe_by_probability": ScoreName("CoE, by probability", _COE, "CoE, responses counting by probability per token"),
    "semantic_entropy": ScoreName(
        "Semantic entropy, mean of agents", _ENTROPIES, "entropy of each agent's meanings; equals the aleatoric part"
    ),
    "semantic_entropy_by_frequency": ScoreName(
        "Semantic entropy, by frequency", _ENTROPIES, "mean of agents, each response counting 1"
    ),
    "semantic_entropy_by_probability": ScoreName(
        "Semantic entropy, by probability", _ENTROPIES, "mean of agents, responses counting by probability per token"
    ),
    "pooled_semantic_entropy": ScoreName(
        "Semantic entropy, pooled", _ENTROPIES, "entropy of the meanings of all responses, as if of one agent"
    ),
    "pooled_semantic_entropy_by_frequency": ScoreName(
        "Semantic entropy, pooled, by frequency", _ENTROPIES, "pooled, each response counting 1"
    ),
    "pooled_semantic_entropy_by_probability": ScoreName(
        "Semantic entropy, pooled, by probability", _ENTROPIES, "pooled, responses counting by probability per token"
    ),
    "renyi3": ScoreName("Rényi entropy of order 3", _ENTROPIES, "of the group's mean; stresses the leading meanings"),
    "divergence_subset": ScoreName(
        "Entropy of a compatible subset", _ENTROPIES, "of the surest agents that hardly diverge from one another"
    ),
    "best_single_model": ScoreName(
        "Semantic entropy, best agent", _ENTROPIES, "of the agent that ranked answers best on the other half"
    ),
    "vote_share": ScoreName("Vote share", _AGREEMENT, "1 - the leading meaning's share of the group"),
    "self_consistency": ScoreName(
        "Self-consistency", _AGREEMENT, "1 - the share of each agent's own most frequent meaning, mean of agents"
    ),
    "disagreement": ScoreName("Disagreement between agents", _AGREEMENT, "chance that responses of two agents differ"),
    "pooled_disagreement": ScoreName(
        "Disagreement, pooled", _AGREEMENT, "chance that any two responses of the group differ"
    ),
    "degree_matrix": ScoreName("Degree matrix", _GRAPHS, "mean distance between two responses (Lin et al., 2024)"),
    "graph_eigenvalues": ScoreName("Graph eigenvalues", _GRAPHS, "a smooth count of the meanings (Lin et al., 2024)"),
    "eccentricity": ScoreName("Eccentricity", _GRAPHS, "spread of the responses on their graph (Lin et al., 2024)"),
    "kernel_language_entropy": ScoreName(
        "Kernel language entropy", _GRAPHS, "entropy of the graph's heat kernel (Nikitin et al., 2024)"
    ),
    "regular_entropy": ScoreName(
        "Regular entropy", _LIKELIHOOD, "mean negative log-probability of whole responses, whatever they mean"
    ),
    "length_normalised_entropy": ScoreName(
        "Regular entropy, per token", _LIKELIHOOD, "mean negative log-probability per token"
    ),
    "p_false": ScoreName("P(False)", _STATED, "the probability that an agent gives to its response being false"),
    "verbal_confidence": ScoreName("Verbal confidence", _STATED, "1 - the confidence that an agent states in words"),
}

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


def name_of(score: str) -> ScoreName:
    """Returns how a score is shown; one that is not built in keeps its own name.

    Example:
        >>> name_of("vote_share").label, name_of("my_score").label
        ('Vote share', 'my_score')
    """
    return _NAMES.get(score) or ScoreName(score, _OTHER, "registered by another package or by the caller")


def group_scores(scores: Iterable[str]) -> dict[str, list[str]]:
    """Returns scores by the group in which they are shown, groups and members in reading order."""
    places = {name: place for place, name in enumerate(_NAMES)}
    groups: dict[str, list[str]] = {}
    for score in sorted(scores, key=lambda name: places.get(name, len(places))):
        groups.setdefault(name_of(score).group, []).append(score)
    return groups
