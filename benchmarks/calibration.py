"""Prints whether a calibrated threshold keeps its promise: on random halves of real data, and on data of known truth.

    python benchmarks/calibration.py FOLDER [HALVES] [--write FILE]

FOLDER holds the four `gen_*_calibn*.dev.jsonl.gz`. A policy is calibrated on one half and decides on the other.

Everything is printed by two criteria. The judge of these data saw one alias of the right answer and rejects 17 to 26 %
of the answers that match another, so that equal answers have different labels. `reference_or_label`, the default, takes
their mean; by `reference_or_any_label` one yes is enough.
"""

import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from calibn import EQUALS, SETS, UNEQUALS, samples
from result_page import result_page
from scipy.stats import beta

from coe_agents.clustering import NormalizedMatch
from coe_agents.evaluation.calibration.calibrate import calibrate, judge_samples
from coe_agents.evaluation.calibration.risk_control import choose_threshold
from coe_agents.evaluation.scoring.correctness import CRITERIA

RISK, CONFIDENCE, SIMULATIONS = 0.3, 0.9, 2000
GROUPS = {"unequal": UNEQUALS, "equal": EQUALS}
CORRECTNESS = ("reference_or_label", "reference_or_any_label")
GATES = {
    "coe": {"score": "coe"},
    "vote share": {"score": "vote_share"},
    "learned": {"weights": "learned"},
    "halves": {"weights": "learned", "halves": True},
}


def main() -> None:
    n_halves = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    print(
        f"{n_halves} random halves, risk {RISK}, confidence {CONFIDENCE}; above: the other half exceeds the risk;"
    )
    print(
        "beyond: by more than its sampling error (lower 95 % bound); never: there is no threshold"
    )
    sets = [
        (correctness, title, name)
        for correctness in CORRECTNESS
        for title in GROUPS
        for name in SETS
    ]
    with ProcessPoolExecutor(2) as pool:
        tables = pool.map(on_set, *zip(*sets, strict=True), [n_halves] * len(sets))
        for (correctness, title, name), table in zip(sets, tables, strict=True):
            if (title, name) == (next(iter(GROUPS)), SETS[0]):
                print(f"\nright by {correctness}")
                print(f"{'models':8} {'set':22} {'gate':10} coverage   risk  above beyond  never")
            print(table, flush=True)
    print()
    on_known_truth()


def judged_rows(folder, name, models, correctness):
    criterion = CRITERIA[correctness]
    with samples(folder, name, models) as questions:
        return judge_samples(
            questions, clusterer=NormalizedMatch(), criterion=criterion, every_cluster=True
        )


def on_set(correctness, title, name, n_halves):
    rows = judged_rows(Path(sys.argv[1]), name, GROUPS[title], correctness)
    return "\n".join(
        f"{title:8} {name:22} {gate:10} {on_halves(rows, n_halves, {**options, 'correctness': correctness})}"
        for gate, options in GATES.items()
    )


def on_halves(rows, n_halves, options):
    found = []
    for seed in range(n_halves):
        order = np.random.default_rng(seed).permutation(len(rows))
        fitted, held_out = ([rows[i] for i in half] for half in np.split(order, [len(rows) // 2]))
        policy = calibrate(
            fitted, risk=RISK, confidence=CONFIDENCE, clusterer="NormalizedMatch", **options
        )
        record = policy.calibration
        with (
            warnings.catch_warnings()
        ):  # a half may lack the question to which an agent gave the fewest responses
            warnings.filterwarnings("ignore", message="the calibrated risk does not hold")
            actions = [
                policy.decide(row.measurement, round=0, max_rounds=1).action for row in held_out
            ]
        pairs = zip(held_out, actions, strict=True)
        answered = [
            row
            for row, action in pairs
            if action == "answer" and record.can_answer(row.measurement)
        ]
        wrong = sum(1.0 - row.verdict(record) for row in answered)
        risk, n_wrong = wrong / len(answered) if answered else np.nan, int(wrong + 1e-9)
        beyond = bool(n_wrong) and beta.ppf(0.05, n_wrong, len(answered) - n_wrong + 1) > RISK
        found.append(
            (len(answered) / len(held_out), risk, risk > RISK, beyond, record.threshold is None)
        )
    coverage, risks, *others = np.array(found, dtype=float).T
    risk = np.nan if np.isnan(risks).all() else np.nanmean(risks)
    return f"{coverage.mean():8.3f} {risk:6.3f}" + "".join(
        f" {share.mean():6.3f}" for share in others
    )


def on_known_truth():
    """P(wrong | u) = u with u uniform on [0, 1]: the true risk of the threshold t is t / 2."""
    for n in (100, 500, 2000):
        generator = np.random.default_rng(n)
        chosen = []
        for _ in range(SIMULATIONS):
            u = generator.random(n)
            found = choose_threshold(
                correct=generator.random(n) >= u, uncertainty=u, risk=0.2, confidence=0.9
            )
            chosen.append(0.0 if found.threshold is None else found.threshold)
        broken = np.mean(np.array(chosen) / 2 > 0.2 + 1e-9)
        print(
            f"known truth, {n} questions, risk 0.2: true risk exceeded in {broken:.3f} of {SIMULATIONS} "
            f"(allowed 0.100), mean coverage {np.mean(chosen):.3f} (best possible 0.400)"
        )


if __name__ == "__main__":
    with result_page():
        main()
