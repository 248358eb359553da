"""Owns the curves of the page: each score's ROC and accuracy-rejection curve, thinned to what a screen can show."""

import numpy as np

from coe_agents.evaluation.metrics import accuracy_rejection_curve, roc_curve
from coe_agents.evaluation.metrics.tallies import FloatArray
from coe_agents.evaluation.scoring import Scores

POINTS = 200


def compute_curves(scores: Scores) -> dict[str, dict[str, list[list[float]]]]:
    """Returns by score: "roc" (false, true positive rate), absent for one class only, and "accuracy" (rejected, value).

    The points of each go from left to right.
    """
    found: dict[str, dict[str, list[list[float]]]] = {}
    for name, values in scores.values.items():
        if not scores.correct.size:
            continue
        kept = accuracy_rejection_curve(correct=scores.correct, uncertainty=values)
        found[name] = {"accuracy": _thin(1.0 - kept.coverage[::-1], kept.values[::-1])}
        if 0 < scores.correct.sum() < scores.correct.size:
            found[name]["roc"] = _thin(*roc_curve(correct=scores.correct, uncertainty=values))
    return found


def _thin(x: FloatArray, y: FloatArray) -> list[list[float]]:
    """Both ends stay."""
    places = np.unique(np.linspace(0, x.size - 1, min(x.size, POINTS)).round().astype(np.int64))
    return [np.round(values[places], 5).tolist() for values in (x, y)]
