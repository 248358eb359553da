"""Prints what weights and confidence add to the vote share: the share answered at a stated risk, by letter.

    python benchmarks/one_score.py FOLDER [HALVES] [--write FILE]

FOLDER holds `gen_mmlupro_calib.dev.jsonl.gz` with its MANIFEST.json: one response of each model to a question, with the
confidence that it stated and its mean token probability. A policy is calibrated on a random half and applied to the
other. The weights by agreement and the learned ones come from the half that chose the threshold.
"""

import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from actions import opened
from calibn import to_samples
from defaults import LETTERS, generations
from result_page import result_page

from coe_agents.clustering import NormalizedMatch
from coe_agents.evaluation.calibration.calibrate import calibrate, judge_samples
from coe_agents.measurement.weighted_vote import (
    CONFIDENCE_VOTE_SHARE,
    TRUSTED_VOTE_SHARE,
    VOTE_SHARE,
)

GROUPS = {
    "strong": LETTERS["strong"],
    "unequal": LETTERS["unequal"],
    "mid": (
        "Qwen2.5-32B-Instruct",
        "gemma-3-27b-it",
        "Mistral-Small-24B-Instruct-2501",
        "Meta-Llama-3.1-70B-Instruct-Turbo",
        "Phi-3.5-MoE-instruct",
    ),
    "small": LETTERS["small"],
}
SCORES = (
    (VOTE_SHARE, "equal"),
    (VOTE_SHARE, "agreement"),
    (VOTE_SHARE, "learned"),
    (TRUSTED_VOTE_SHARE, "equal"),
    (CONFIDENCE_VOTE_SHARE, "equal"),
    (CONFIDENCE_VOTE_SHARE, "agreement"),
    (CONFIDENCE_VOTE_SHARE, "learned"),
)
RISKS, CONFIDENCE, HALVES = (0.05, 0.1, 0.2), 0.9, 12


def main() -> None:
    folder = Path(sys.argv[1])
    n_halves = int(sys.argv[2]) if len(sys.argv) > 2 else HALVES
    print(
        f"calibrated at confidence {CONFIDENCE} on a random half, applied to the other; means of {n_halves} halves"
    )
    print("at each stated risk: the share that is answered, and how much of it is wrong\n")
    print(f"{'models':8} {'score':22} {'weights':10}" + "".join(f"  {risk:>11}" for risk in RISKS))
    with ProcessPoolExecutor(2) as pool:
        for lines in pool.map(on_group, [folder] * len(GROUPS), GROUPS, [n_halves] * len(GROUPS)):
            print(lines, flush=True)


def on_group(folder, title, n_halves):
    rows = rows_of(folder, GROUPS[title])
    lines = []
    for score, weights in SCORES:
        halves = [on_half(rows, score, weights, seed) for seed in range(n_halves)]
        cells = ""
        for place in range(len(RISKS)):
            coverage, realised = np.array([half[place] for half in halves]).T
            answered = realised[np.isfinite(realised)]
            mean = answered.mean() if answered.size else np.nan
            cells += f"  {coverage.mean():.3f} {mean:5.3f}"
        lines.append(f"{title:8} {score:22} {weights:10}{cells}")
    return "\n".join(lines)


def rows_of(folder, models):
    samples = []
    for record in generations(folder, "mmlupro_calib"):
        samples += to_samples(record, models)
    with opened(samples) as questions:
        rows = judge_samples(questions, clusterer=NormalizedMatch(), every_cluster=True)
    return [
        row for row in rows if row.correct is not None and row.measurement.n_agents == len(models)
    ]


def on_half(rows, score, weights, seed):
    """Returns coverage and realised risk for each stated risk."""
    order = np.random.default_rng(seed).permutation(len(rows))
    fitted, held_out = ([rows[i] for i in half] for half in np.split(order, [len(rows) // 2]))
    found = []
    for risk in RISKS:
        policy = calibrate(
            fitted,
            risk=risk,
            confidence=CONFIDENCE,
            score=score,
            weights=weights,
            clusterer="NormalizedMatch",
            correctness="reference_or_label",
        )
        with warnings.catch_warnings(action="ignore"):
            answered = [row for row in held_out if is_answered(policy, row)]
        n_wrong = sum(1.0 - row.verdict(policy.calibration) for row in answered)
        found.append(
            (len(answered) / len(held_out), n_wrong / len(answered) if answered else np.nan)
        )
    return found


def is_answered(policy, row):
    return policy.decide(row.measurement, round=0, max_rounds=1).action == "answer"


if __name__ == "__main__":
    with result_page():
        main()
