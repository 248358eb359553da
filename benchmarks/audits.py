"""Prints how often a calibration on audits finds a threshold, and how often that breaks the risk, where it is known.

    python benchmarks/audits.py [--repetitions N] [--write FILE]

Questions have uncertainties u, uniform on [0, 1]. Those up to the present threshold of 0.5 are answered, and a tenth of
these is audited; the others are escalated and settled. "weighted": by `choose_audited_threshold` alone; "both": as
`recalibrate` chooses, which also counts audits of one common rate.
"""

import argparse
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np
from drift_year import CONFIDENCE, RISK
from result_page import result_page
from scipy.stats import binom

from coe_agents.evaluation.calibration.risk_control import choose_audited_threshold
from coe_agents.rulings.audits import choose_in_both_ways

RATE, PRESENT = 0.1, 0.5
TRUTHS = {
    "0.2 u": lambda u: 0.2 * u,
    "0.4 u": lambda u: 0.4 * u,
    "0.6 u": lambda u: 0.6 * u,
    "0.11": lambda u: 0.11 + 0.0 * u,
}
"""The probability that an answer is wrong."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repetitions", type=int, default=800)
    n = parser.parse_args().repetitions
    most = int(binom.ppf(0.95, n, 1 - CONFIDENCE))
    print(
        f"{n} runs each; audit rate {RATE}, present threshold {PRESENT}, stated risk {RISK} with confidence "
        f"{CONFIDENCE};\nbroken: the true risk of the chosen threshold is higher, allowed in {most} runs "
        f"({1 - CONFIDENCE:.1f} and binomial error)\n"
    )
    print("                      none found            broken             mean threshold (none: 0)")
    print("questions  P(wrong)   weighted    both      weighted    both   weighted    both    best")
    with ProcessPoolExecutor(2) as pool:
        for n_questions in (1000, 2000, 4000):
            for truth in TRUTHS:
                one = partial(thresholds, truth=truth, n_questions=n_questions)
                found = np.array(list(pool.map(one, range(n), chunksize=20)))
                none = np.isnan(found).mean(axis=0)
                broken = (true_risk(found, truth) > RISK + 1e-9).sum(axis=0)
                mean = np.nan_to_num(found).mean(axis=0)
                print(
                    f"{n_questions:9d}  {truth:8}  {none[0]:9.3f} {none[1]:7.3f}   {broken[0]:11d} {broken[1]:7d}"
                    f"  {mean[0]:9.3f} {mean[1]:7.3f} {best(truth):7.3f}",
                    flush=True,
                )


def thresholds(seed, *, truth, n_questions):
    """Returns the threshold of one run by weights alone and by both ways; NaN where none is found."""
    generator = np.random.default_rng(seed)
    u, draws, errs = generator.random((3, n_questions))
    seen = (u > PRESENT) | (draws < RATE)
    correct, scores, probabilities = (
        (errs >= TRUTHS[truth](u))[seen],
        u[seen],
        np.where(u <= PRESENT, RATE, 1.0)[seen],
    )
    how = {"risk": RISK, "confidence": CONFIDENCE}
    weighted = choose_audited_threshold(
        correct=correct, uncertainty=scores, probabilities=probabilities, **how
    )
    both = choose_in_both_ways(correct, scores, probabilities, below=PRESENT, **how)
    return [
        np.nan if choice is None or choice.threshold is None else choice.threshold
        for choice in (weighted, both)
    ]


def true_risk(threshold, truth):
    """The risk of answering up to a threshold: P(wrong) at its half, since each rises linearly or not at all."""
    return TRUTHS[truth](threshold / 2.0)


def best(truth):
    """The highest threshold that keeps the risk."""
    grid = np.linspace(0.0, 1.0, 3001)
    kept = grid[true_risk(grid, truth) <= RISK + 1e-9]
    return kept.max() if kept.size else 0.0


if __name__ == "__main__":
    with result_page():
        main()
