"""Prints how well each uncertainty tells wrong answers of real models from right ones.

    python benchmarks/real_responses.py FOLDER

FOLDER holds `gen_nq_calibn.dev.jsonl.gz` and `gen_triviaqa_calibn.dev.jsonl.gz`. Answers are clustered without a model.
"""

import sys
import time
from pathlib import Path

from calibn import EQUALS, samples
from rich.console import Console

from coe_agents.cli.score_table import show_report
from coe_agents.clustering import NormalizedMatch
from coe_agents.evaluation import report, score


def main() -> None:
    folder = Path(sys.argv[1])
    console = Console(width=190, highlight=False)
    for name in ("nq_calibn", "triviaqa_calibn"):
        for weighting in ("frequency", "probability"):
            start = time.perf_counter()
            with samples(folder, name, EQUALS) as questions:
                figures = report(score(questions, clusterer=NormalizedMatch(), weighting=weighting))
            console.rule(f"{name}, by {weighting}: {time.perf_counter() - start:.1f} s")
            show_report(figures, console=console)


if __name__ == "__main__":
    main()
