"""Prints whether a calibrated threshold keeps its promise: on random halves of real data, and on data of known truth.

    python benchmarks/calibration.py FOLDER

FOLDER holds `gen_triviaqa_calibn_train.dev.jsonl.gz`.
"""

import sys
from pathlib import Path

import numpy as np
from calibn import EQUALS, samples
from scipy.stats import beta

from coe_agents.clustering import NormalizedMatch
from coe_agents.evaluation import calibrate, judged
from coe_agents.evaluation.calibration import choose_threshold

RISK, CONFIDENCE, HALVES, SIMULATIONS = 0.35, 0.9, 200, 2000


def main() -> None:
    with samples(Path(sys.argv[1]), "triviaqa_calibn_train", EQUALS) as questions:
        rows = judged(questions, clusterer=NormalizedMatch())
    print(f"{len(rows)} questions, {np.mean([row.correct for row in rows]):.3f} right if all were answered")
    for gate in ("threshold", "learned"):
        on_halves(rows, gate)
    on_known_truth()


def on_halves(rows, gate):
    coverages, risks, broken, above, never = [], [], 0, 0, 0
    for seed in range(HALVES):
        order = np.random.default_rng(seed).permutation(len(rows))
        half = len(rows) // 2
        policy = calibrate(
            [rows[i] for i in order[:half]],
            risk=RISK,
            confidence=CONFIDENCE,
            gate=gate,
            clusterer="NormalizedMatch",
            correctness="reference_or_label",
        )
        held_out = [rows[i] for i in order[half:]]
        decisions = [policy.decide(row.measurement, round=0, max_rounds=1) for row in held_out]
        answered = [
            row
            for row, decision in zip(held_out, decisions, strict=True)
            if decision.action == "answer" and row.measurement.answer_kind == "answer"
        ]
        n_wrong = sum(not row.correct for row in answered)
        coverages.append(len(answered) / len(held_out))
        never += not answered
        if answered:
            risks.append(n_wrong / len(answered))
            above += risks[-1] > RISK
            broken += bool(n_wrong) and beta.ppf(0.05, n_wrong, len(answered) - n_wrong + 1) > RISK
    print(f"gate {gate}: {HALVES} random halves, risk {RISK}, confidence {CONFIDENCE}")
    print(f"  mean coverage of the other half            {np.mean(coverages):.3f} (nothing answered in {never})")
    print(f"  mean realised risk                         {np.mean(risks):.3f}")
    print(f"  above the risk at all                      {above / HALVES:.3f}")
    print(f"  above it beyond the half's sampling error  {broken / HALVES:.3f}")


def on_known_truth():
    """P(wrong | u) = u with u uniform on [0, 1]: the true risk of the threshold t is t / 2."""
    grid = np.arange(0, 1.001, 0.01)
    for n in (100, 500, 2000):
        generator = np.random.default_rng(n)
        chosen = []
        for _ in range(SIMULATIONS):
            u = generator.random(n)
            found = choose_threshold(
                correct=generator.random(n) >= u, uncertainty=u, grid=grid, risk=0.2, confidence=0.9
            )
            chosen.append(0.0 if found.threshold is None else found.threshold)
        broken = np.mean(np.array(chosen) / 2 > 0.2 + 1e-9)
        print(
            f"known truth, {n} questions, risk 0.2: true risk exceeded in {broken:.3f} of {SIMULATIONS} "
            f"(allowed 0.100), mean coverage {np.mean(chosen):.3f} (best possible 0.400)"
        )


if __name__ == "__main__":
    main()
