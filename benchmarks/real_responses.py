"""Prints how well each uncertainty separates wrong answers of real models from right ones.

    python benchmarks/real_responses.py FOLDER [--write FILE]

FOLDER holds `gen_nq_calibn.dev.jsonl.gz` and `gen_triviaqa_calibn.dev.jsonl.gz`. Answers are clustered without a model.
"""

import sys
import time
from pathlib import Path

from calibn import EQUALS, samples
from result_page import result_page

from coe_agents.clustering import NormalizedMatch
from coe_agents.evaluation.scoring.scores import ScoringSetup, report, score_samples

RUNS = [
    (name, weighting)
    for name in ("nq_calibn", "triviaqa_calibn")
    for weighting in ("frequency", "probability")
]
SHOWN = (
    "coe", "coe_js", "coe_hellinger", "coe_wasserstein", "aleatoric", "epistemic", "pooled_semantic_entropy",
    "vote_share", "pooled_disagreement",
    "regular_entropy", "best_single_model",
)  # fmt: skip


def main() -> None:
    folder = Path(sys.argv[1])
    reports, seconds = [], []
    for name, weighting in RUNS:
        start = time.perf_counter()
        with samples(folder, name, EQUALS) as questions:
            setup = ScoringSetup(NormalizedMatch(), weighting=weighting)
            reports.append(report(score_samples(questions, setup)))
        seconds.append(time.perf_counter() - start)
    show("AUROC [95 %]", [f"{name.partition('_')[0]}, {weighting}" for name, weighting in RUNS])
    for shown in SHOWN:
        show(shown, [interval(found["scores"][shown]["auroc"]) for found in reports])
    show("questions", [str(found["n_scored"]) for found in reports])
    show("ties", [str(found["n_ties"]) for found in reports])
    show("accuracy", [f"{found['accuracy']:.3f}" for found in reports])
    show("seconds", [f"{each:.1f}" for each in seconds])


def show(head: str, cells: list[str]) -> None:
    print("".join((f"{head:26}", *(f"{cell:24}" for cell in cells))).rstrip())


def interval(estimate: list[float]) -> str:
    value, low, high = estimate
    return f"{value:.3f} [{low:.3f}, {high:.3f}]"


if __name__ == "__main__":
    with result_page():
        main()
