"""Owns the report of an evaluation: what `coe-agents score --json` prints, and what its table shows."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np

from coe_agents.evaluation.metrics.bootstrap import Estimate, Estimates, estimate_all, to_plain
from coe_agents.evaluation.metrics.selective_prediction import RETENTIONS
from coe_agents.evaluation.metrics.tallies import FloatArray
from coe_agents.evaluation.scoring.scores import Scores
from coe_agents.evaluation.workers import ALONE, Workers


def report(scores: Scores, *, n_resamples: int = 1000, workers: Workers = ALONE) -> dict[str, Any]:
    """Returns the figures of every score as plain data that JSON can hold; a figure that is NaN is None.

    Differences are taken to "coe"; `n_resamples` is that of the bootstrap behind every interval, which `workers` share.

    Returns:
        "n_questions", "n_scored", "accuracy", "correctness" and "scores", by name: "auroc", "aurac", "aurc",
        "paper_aurac" and "rejection_accuracy" by retention, each as [value, low, high] with a 95 % interval; for the
        other scores "auroc_difference" and "aurac_difference", paired. "n_ties" counts the scored questions where
        several answers share the lead; each counts by the share of these that is right, so "accuracy" is an expected
        one. "details" says what was left out, and why; "n_inside" counts wrong answers with a reference in them.

        Where one agent's proposal is judged, "proposer" names it, and "n_without_proposal" in "details" counts the
        questions to which it gave no response. Where there are tool calls, "by_kind" has "n_scored", "accuracy" and
        "scores" of the "call" and "no_call" rows apart: by whether what is judged calls a tool.
    """
    estimate = partial(estimate_all, n_resamples=n_resamples, workers=workers)
    whole = _figures(scores.correct, scores.values, estimate)
    found: dict[str, Any] = {
        "n_questions": scores.n_questions,
        "n_scored": whole["n_scored"],
        "accuracy": whole["accuracy"],
        "correctness": scores.criterion,
        "scores": whole["scores"],
        "n_ties": scores.n_ties,
        "details": {
            "clusterer": scores.clusterer,
            "weighting": scores.weighting,
            "n_unanswered": scores.n_unanswered,
            "n_unjudged": scores.n_unjudged,
            "n_inside": scores.n_inside,
            "agents": {name: asdict(count) for name, count in scores.agents.items()},
            "absent": dict(scores.absent),
            "reference": "coe",
            "n_resamples": n_resamples,
        },
    }
    if scores.proposer is not None:
        found["proposer"] = scores.proposer
        found["details"]["n_without_proposal"] = scores.n_without_proposal
    kinds = np.array(scores.kinds, dtype=object)
    if rows_of := {kind: kinds == kind for kind in ("call", "no_call") if kind in scores.kinds}:
        found["by_kind"] = {
            kind: _figures(
                scores.correct[rows], {name: values[rows] for name, values in scores.values.items()}, estimate
            )
            for kind, rows in rows_of.items()
        }
    return found


def _shown(estimates: Mapping[str, Estimate], differences: Mapping[str, Estimate]) -> dict[str, Any]:
    area, low, high = estimates["aurac"]
    figures: dict[str, Any] = {
        "auroc": to_plain(estimates["auroc"]),
        "aurac": to_plain(estimates["aurac"]),
        "rejection_accuracy": {str(share): to_plain(estimates[f"accuracy at {share}"]) for share in RETENTIONS},
        "aurc": to_plain((1.0 - area, 1.0 - high, 1.0 - low)),
        "paper_aurac": to_plain(estimates["paper_aurac"]),
    }
    for metric in ("auroc", "aurac"):
        if metric in differences:
            figures[f"{metric}_difference"] = to_plain(differences[metric])
    return figures


def _figures(
    correct: FloatArray, scores: Mapping[str, FloatArray], estimate: Callable[..., Estimates]
) -> dict[str, Any]:
    n_scored = int(correct.size)
    estimates, differences = estimate(correct, scores) if n_scored else ({}, {})
    figures = {name: _shown(found, differences.get(name, {})) for name, found in estimates.items()}
    return {"n_scored": n_scored, "accuracy": float(correct.mean()) if n_scored else None, "scores": figures}


def find_standout(scores: Mapping[str, Any]) -> str | None:
    """Returns the name in a report's "scores" with the highest AUROC if its interval holds no other's; else None."""
    known = {name: found["auroc"] for name, found in scores.items() if found["auroc"][0] is not None}
    best = max(known, key=lambda name: known[name][0], default=None)
    if best is None or any(known[best][1] <= known[name][0] for name in known if name != best):
        return None
    return best
