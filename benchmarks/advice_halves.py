"""Prints what `advise` says on one half of the questions, and what the same figures are on the other half.

    python benchmarks/advice_halves.py FOLDER [QUESTIONS] [--write FILE]

FOLDER holds `gen_mmlupro_calib.dev.jsonl.gz` with its MANIFEST.json. Each group gives one response of each model to
so many questions (by default 1,200), which are split at random. A line is confirmed where the other half shows the
same sign, or, of what is advised to be no gain, where its gain there is at most .02.
"""

import sys
from pathlib import Path

import numpy as np
from one_score import GROUPS, rows_of
from result_page import result_page

from coe_agents.advice.advice import Advice, Difference, advise

QUESTIONS, N_RESAMPLES, SMALL = 1200, 400, 0.02


def main() -> None:
    folder = Path(sys.argv[1])
    n_questions = int(sys.argv[2]) if len(sys.argv) > 2 else QUESTIONS
    for title, models in GROUPS.items():
        rows = rows_of(folder, models)
        order = np.random.default_rng(0).permutation(len(rows))[:n_questions]
        half, other = np.split(order, [len(order) // 2])
        show(
            title,
            advise([rows[i] for i in half], n_resamples=N_RESAMPLES),
            advise([rows[i] for i in other], n_resamples=N_RESAMPLES),
        )


def show(title: str, advice: Advice, other: Advice) -> None:
    print(f"{title}: {advice.n_questions} questions, {other.n_questions} others")
    told, found = advice.accuracy[0], other.accuracy[0]
    print(f"  the group is right in {told:.3f}; others {found:.3f}")
    told, found = advice.best_accuracy[0], other.best_accuracy[0]
    print(f"  the best agent alone, {advice.best}, in {told:.3f}; others {other.best}, {found:.3f}")
    print(f"  the group is better than it: {line(advice.over_best, other.over_best)}")
    for name, gain in advice.weight_gains.items():
        print(
            f"  weights by {name} (advised: {advice.weights}): {line(gain, other.weight_gains[name])}"
        )
    for name, gain in advice.score_gains.items():
        print(f"  score {name} (advised: {advice.score}): {line(gain, other.score_gains[name])}")
    useless = ", ".join(advice.useless) or "none"
    print(f"  agents that add nothing: {useless}; others {', '.join(other.useless) or 'none'}")
    for risk, answered in advice.coverage.items():
        value, low, high = answered
        there = other.coverage[risk][0]
        print(
            f"  answered at {risk:.0%} wrong: {value:.3f} [{low:.3f}, {high:.3f}]; others {there:.3f}"
        )
    print()


def line(gain: Difference, there: Difference) -> str:
    """The gain on both halves, and whether the second confirms the first."""
    is_shown = gain.p < 0.05
    confirmed = (
        np.sign(gain.value) == np.sign(there.value) if is_shown else abs(there.value) <= SMALL
    )
    verdict = "confirmed" if confirmed else "not confirmed"
    said = "shown" if is_shown else "no gain shown"
    return f"{gain.value:+.3f}, p {gain.p:.2g} ({said}); others {there.value:+.3f}, p {there.p:.2g}: {verdict}"


if __name__ == "__main__":
    with result_page():
        main()
