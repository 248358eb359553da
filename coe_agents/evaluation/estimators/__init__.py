"""Owns the estimators of uncertainty by name: pure functions of one question's statistics, higher = less sure.

Each gives None where it cannot be computed; a score is reported only if it can be for every question that is scored.
"""

from collections.abc import Callable, Mapping

from coe_agents.evaluation.estimators import agreement, collaborative, entropies, graphs, likelihood, stated, subsets
from coe_agents.evaluation.statistics import Statistics

Estimator = Callable[[Statistics], float | None]

ESTIMATORS: Mapping[str, Estimator] = {
    estimator.__name__: estimator
    for estimator in (
        collaborative.coe,
        collaborative.coe_js,
        collaborative.coe_hellinger,
        collaborative.coe_wasserstein,
        collaborative.coe_by_frequency,
        collaborative.coe_by_probability,
        collaborative.aleatoric,
        collaborative.epistemic,
        entropies.semantic_entropy,
        entropies.semantic_entropy_by_frequency,
        entropies.semantic_entropy_by_probability,
        entropies.pooled_semantic_entropy,
        entropies.pooled_semantic_entropy_by_frequency,
        entropies.pooled_semantic_entropy_by_probability,
        entropies.renyi3,
        likelihood.regular_entropy,
        likelihood.length_normalised_entropy,
        agreement.vote_share,
        agreement.self_consistency,
        agreement.disagreement,
        agreement.pooled_disagreement,
        graphs.degree_matrix,
        graphs.graph_eigenvalues,
        graphs.eccentricity,
        graphs.kernel_language_entropy,
        subsets.divergence_subset,
        stated.p_false,
        stated.verbal_confidence,
    )
}

CONFIDENCES = ("vote_share", "self_consistency", "p_false", "verbal_confidence")
"""Scores that are 1 - a claimed probability of being right, so that a calibration error can be computed."""

__all__ = ["CONFIDENCES", "ESTIMATORS", "Estimator"]
