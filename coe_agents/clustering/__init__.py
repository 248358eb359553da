"""Owns the step from responses to clusters of meaning: canonical answers, clusterers, refusals and empty responses."""

from typing import TYPE_CHECKING

from coe_agents._removed import missing_name
from coe_agents.clustering.bidirectional import BidirectionalEntailment
from coe_agents.clustering.embedding import EmbeddingSimilarity
from coe_agents.clustering.mathematics import MathematicsMatch
from coe_agents.clustering.normalized import NormalizedMatch
from coe_agents.clustering.protocols import Clusterer, EntailmentModel
from coe_agents.clustering.responses import cluster_many, cluster_responses

__all__ = [
    "BidirectionalEntailment",
    "Clusterer",
    "EmbeddingSimilarity",
    "EntailmentModel",
    "MathematicsMatch",
    "NormalizedMatch",
    "cluster_many",
    "cluster_responses",
]

if not TYPE_CHECKING:  # a type checker would accept every name

    def __getattr__(name):
        raise missing_name(__name__, name)
