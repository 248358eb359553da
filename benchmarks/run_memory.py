"""Prints the peak memory of `run` over many questions, and of what reads its decisions: iteration, text and frames.

    python benchmarks/run_memory.py [--questions 10000] [--write FILE]

Three scripted agents answer each question three times, so that no model counts. Every line is a process of its own.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from process_cost import cost_of
from result_page import result_page

from coe_agents import ThresholdPolicy, run
from coe_agents.experiments.runs import Runs
from coe_agents.testing import ScriptedAgent

WORK = {
    "run": "decided and kept on the disk",
    "resume": "resumed, with nothing missing",
    "iterate": "iterated over",
    "print": "printed",
    "frame": "as a frame",
    "rounds": "as a frame of rounds",
}


def work(name: str, folder: Path, n_questions: int) -> None:
    if name in {"run", "resume"}:
        agents = [ScriptedAgent(agent, ["Paris", "Paris", "Lyon"]) for agent in "abc"]
        questions = []
        for number in range(n_questions):
            question = f"What is the capital of country {number}?"
            questions.append({"question": question, "references": ["Paris"]})
        run(agents, questions, policy=ThresholdPolicy(float("inf")), out=folder, progress=False)
        return

    runs = Runs(folder)
    if name == "iterate":
        n_read = sum(item.correct == 1.0 for item in runs)
    elif name == "print":
        n_read = n_questions if f"{n_questions} answered" in str(runs) else 0
    else:
        n_read = runs.to_frame(rounds=name == "rounds")["id"].nunique()
    if n_read != n_questions:
        raise SystemExit(f"{n_read} of {n_questions} questions were read")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--questions", type=int, default=10_000)
    parser.add_argument("--work", choices=WORK, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        work(args.work, args.folder, args.questions)
        return

    with tempfile.TemporaryDirectory() as folder:
        print(f"{args.questions:,} questions               CPU s   peak MB")
        for name, label in WORK.items():
            script = [sys.executable, __file__, "--questions", str(args.questions)]
            cost = cost_of([*script, "--work", name, "--folder", folder])
            print(f"{label:32} {cost.seconds:5.1f} {cost.megabytes:9.0f}", flush=True)


if __name__ == "__main__":
    with result_page():
        main()
