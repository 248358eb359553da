"""Owns the step from responses to clusters of meaning: canonical answers, clusterers, refusals and empty responses."""

from coe_agents.clustering.answers import canonical_answer
from coe_agents.clustering.bidirectional import BidirectionalEntailment
from coe_agents.clustering.embedding import EmbeddingSimilarity
from coe_agents.clustering.entailment_wrappers import CachedEntailment
from coe_agents.clustering.normalized import NormalizedMatch
from coe_agents.clustering.protocols import Clusterer, EntailmentModel
from coe_agents.clustering.responses import cluster_many, cluster_responses

__all__ = [
    "BidirectionalEntailment",
    "CachedEntailment",
    "Clusterer",
    "EmbeddingSimilarity",
    "EntailmentModel",
    "NormalizedMatch",
    "canonical_answer",
    "cluster_many",
    "cluster_responses",
]
