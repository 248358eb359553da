"""Owns the metrics of selective prediction, the tally behind them, and their bootstrap intervals."""

from coe_agents.evaluation.metrics.selective_prediction import (
    accuracy_rejection_curve,
    aurac,
    auroc,
    rejection_accuracy,
    risk_coverage_curve,
)

__all__ = [
    "accuracy_rejection_curve",
    "aurac",
    "auroc",
    "rejection_accuracy",
    "risk_coverage_curve",
]
