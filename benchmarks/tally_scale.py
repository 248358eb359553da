"""Prints what scoring costs by the number of questions where tallies are kept in place of scores: CPU and memory.

    python benchmarks/tally_scale.py [QUESTIONS ...] [--write FILE]

The scored questions are invented one by one, as the driver of a Ray cluster reads them, with as many scores as
`score` has: so it is the memory of what is kept, and the time of keeping it. Every size is a process of its own. Up to
100,000 questions are kept exactly as well, to compare.
"""

import argparse
import json
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

from process_cost import cost_of
from result_page import result_page

sys.path.insert(0, str(Path(__file__).parents[1]))
from coe_agents.evaluation import report
from coe_agents.evaluation.scoring.estimators import ESTIMATORS
from coe_agents.evaluation.scoring.scored_question import AgentScore, ScoredQuestion, ScoringNames
from coe_agents.evaluation.scoring.scores import to_scores
from coe_agents.evaluation.scoring.tallied import to_tallies

SIZES = (10_000, 100_000, 1_000_000)
MOST_EXACT = 100_000
AGENTS = ("llama", "mistral", "qwen")


def invent(n_questions: int) -> Iterator[ScoredQuestion]:
    """Yields scored questions: every score is as unsure as the question is hard, with noise of its own."""
    drawn = random.Random(0)
    for number in range(n_questions):
        hard = drawn.random()
        scores = {name: hard + drawn.expovariate(2.0) for name in ESTIMATORS}
        agents = {name: AgentScore(hard + drawn.expovariate(1.0), 10, True) for name in AGENTS}
        yield ScoredQuestion(f"q{number:07}", {}, agents, float(drawn.random() > hard), scores=scores)


def work(n_questions: int, *, exact: bool) -> None:
    """Keeps the scores in this process, and prints the figures of CoE."""
    names = ScoringNames("invented", "invented", "auto", tuple(ESTIMATORS))
    kept = (to_scores if exact else to_tallies)(invent(n_questions), names)
    print(json.dumps(report(kept, n_resamples=1000)["scores"]["coe"]))


def cost(n_questions: int, *, exact: bool) -> tuple[dict[str, list[float]], float, float]:
    """Returns the figures, CPU seconds and peak megabytes of a process that scores."""
    command = [sys.executable, __file__, str(n_questions), "--only", "exact" if exact else "tally"]
    took = cost_of(command, env={**os.environ, "OMP_NUM_THREADS": "1"})
    return json.loads(took.printed), took.seconds, took.megabytes


def show(estimate: list[float]) -> str:
    return "{:.5f} [{:.4f}, {:.4f}]".format(*estimate)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sizes", nargs="*", type=int, default=SIZES, metavar="QUESTIONS")
    parser.add_argument("--only", choices=("exact", "tally"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.only:
        work(args.sizes[0], exact=args.only == "exact")
        return
    print("questions            CPU s  ms each  peak MB   AUROC of CoE               at most off")
    for n in sorted(args.sizes):
        for exact in (False, True) if n <= MOST_EXACT else (False,):
            figures, seconds, megabytes = cost(n, exact=exact)
            off = "" if exact else f"{figures['error']['auroc']:12.1e}"
            numbers = f"{seconds:7.1f} {1000 * seconds / n:8.2f} {megabytes:8.0f}"
            print(
                f"{n:9,} {'exactly' if exact else 'tallied':9} {numbers}   {show(figures['auroc'])} {off}", flush=True
            )


if __name__ == "__main__":
    with result_page():
        main()
