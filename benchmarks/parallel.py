"""Prints what two processes save `score`, and tinyworld's agents at once: wall and CPU seconds over those of one.

    python benchmarks/parallel.py [--pairs 5] [--questions 10000] [--write FILE]

The two of a pair follow each other. The ratio is the median of the pairs', with the lowest and highest.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}

from process_cost import cost_of
from result_page import result_page
from score_scale import write_samples

from coe_agents.tinyworld import tinyworld_agents
from coe_agents.tinyworld.facts import load_facts
from coe_agents.types import AgentRequest

Cost = tuple[float, float]  # wall and CPU seconds


def score(path: Path, n_processes: int) -> Cost:
    command = [sys.executable, "-m", "coe_agents", "score", path, "--clusterer", "normalized"]
    start = time.perf_counter()
    done = cost_of([*command, "--processes", str(n_processes)])
    return time.perf_counter() - start, done.seconds


async def ask_all(n_questions: int) -> list[tuple[Cost, Cost]]:
    """Returns what each question cost the agents at once, and in turn."""
    agents, pairs = tinyworld_agents(), []
    for fact in load_facts()[: n_questions + 1]:
        request = AgentRequest(
            question=fact.question, messages=[{"role": "user", "content": fact.question}], round=0
        )
        marks = [(time.perf_counter(), time.process_time())]
        await asyncio.gather(*(agent.asample(request) for agent in agents))
        marks.append((time.perf_counter(), time.process_time()))
        for agent in agents:
            await agent.asample(request)
        marks.append((time.perf_counter(), time.process_time()))
        once, turn = (tuple(b - a for a, b in zip(*both, strict=True)) for both in pairwise(marks))
        pairs.append((once, turn))
    return pairs[1:]  # at the first, models were loaded


def show(what: str, pairs: list[tuple[Cost, Cost]]) -> None:
    for place, kind in enumerate(("wall", "CPU")):
        ratios = [first[place] / second[place] for first, second in pairs]
        spread = f"[{min(ratios):.2f}, {max(ratios):.2f}]"
        print(f"{what:52} {kind:4} {statistics.median(ratios):.2f} {spread}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--questions", type=int, default=10_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "many.samples.jsonl"
        write_samples(path, args.questions)
        show(
            f"score, {args.questions:,} questions: two processes / one",
            [(score(path, 2), score(path, 1)) for _ in range(args.pairs)],
        )
    show("tinyworld, 40 questions: agents at once / in turn", asyncio.run(ask_all(40)))


if __name__ == "__main__":
    with result_page():
        main()
