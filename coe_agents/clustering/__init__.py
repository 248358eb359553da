"""Owns the way from responses to clusters of meaning: canonical answers, clusterers, refusals and empty responses."""

from coe_agents.clustering.answers import canonical_answer, parse_choice, strip_reasoning
from coe_agents.clustering.bidirectional import BidirectionalEntailment
from coe_agents.clustering.caching import CachedEntailment
from coe_agents.clustering.cluster import cluster_many, cluster_responses
from coe_agents.clustering.counting import CountingEntailment
from coe_agents.clustering.normalized import NormalizedMatch, normalize_answer
from coe_agents.clustering.protocols import ENTAILMENT_LABELS, Clusterer, EntailmentModel
from coe_agents.clustering.refusals import answer_kind
from coe_agents.clustering.similarity import EmbeddingSimilarity

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
