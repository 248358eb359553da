"""Owns the step from responses to clusters of meaning: canonical answers, clusterers, refusals and empty responses."""

from coe_agents.clustering.answers import canonical_answer, parse_choice, strip_reasoning
from coe_agents.clustering.bidirectional import BidirectionalEntailment
from coe_agents.clustering.cluster import cluster_many, cluster_responses
from coe_agents.clustering.embedding import EmbeddingSimilarity
from coe_agents.clustering.entailment_wrappers import CachedEntailment, CountingEntailment
from coe_agents.clustering.normalized import NormalizedMatch, normalize_answer
from coe_agents.clustering.protocols import ENTAILMENT_LABELS, Clusterer, EntailmentModel
from coe_agents.clustering.refusals import answer_kind

__all__ = [
    "ENTAILMENT_LABELS",
    "BidirectionalEntailment",
    "CachedEntailment",
    "Clusterer",
    "CountingEntailment",
    "EmbeddingSimilarity",
    "EntailmentModel",
    "NormalizedMatch",
    "answer_kind",
    "canonical_answer",
    "cluster_many",
    "cluster_responses",
    "normalize_answer",
    "parse_choice",
    "strip_reasoning",
]
