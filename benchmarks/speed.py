"""Prints what an older version and this one cost: the same work in both by turns, in CPU seconds.

    git worktree add FOLDER COMMIT
    python benchmarks/speed.py FOLDER [--rounds 5] [--questions 10000] [--write FILE]

FOLDER is a checkout of the older version; both run in this environment. Every piece of work is a process of its own,
one thread of linear algebra. The ratio is the median over the rounds, each of which runs both versions.

CPU seconds vary with what else the machine does. Where valgrind is installed, a second table counts the machine
instructions of Python and all libraries, which do not, those of all processes of a command. One question's are the
difference between a long and a short run, without garbage collection but for the council: its turns fall unevenly.
Two whole commands are counted as they are.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from process_cost import ProcessCost, cost_of
from result_page import ROOT, result_page
from score_scale import write_samples

ASK = """
import asyncio, gc, sys
gc.disable()  # its turns fall unevenly
from coe_agents import ThresholdPolicy, create_coe_graph
from coe_agents.clustering import NormalizedMatch
from coe_agents.testing import ScriptedAgent

async def main(n_agents, n_questions):
    agents = [ScriptedAgent(f"agent {i}", ["Paris"] * 4 + [f"City {i}"]) for i in range(n_agents)]
    graph = create_coe_graph(agents, clusterer=NormalizedMatch(), policy=ThresholdPolicy(0.6)).compile()
    for number in range(n_questions):
        await graph.ainvoke({"question": f"What is the capital of country {number}?"})

asyncio.run(main(*map(int, sys.argv[1:])))
"""
GRAPH = """
import asyncio, json, sys, time
import numpy as np
sys.path.append(sys.argv[1])
from concurrency import empty_graph
from coe_agents import ThresholdPolicy, create_coe_graph
from coe_agents.clustering import NormalizedMatch
from coe_agents.testing import ScriptedAgent

def ours(names):
    agents = [ScriptedAgent(name, ["Paris"] * 4 + [f"City {name}"]) for name in names]
    return create_coe_graph(agents, clusterer=NormalizedMatch(), policy=ThresholdPolicy(0.6))

async def main():
    found = {}
    for n_agents, repeats in ((3, 150), (32, 60)):
        names = [f"agent {number}" for number in range(n_agents)]
        graphs, times = [empty_graph(names, delay=0).compile(), ours(names).compile()], [[], []]
        for number in range(repeats):
            for graph, own in zip(graphs, times):
                start = time.process_time()
                await graph.ainvoke({"question": f"What is the capital of country {number}?"})
                own.append(1000 * (time.process_time() - start))
        found[n_agents] = float(np.median(times[1][20:]) - np.median(times[0][20:]))
    print(json.dumps(found))

asyncio.run(main())
"""
QUESTION = "What is the capital of France?"
UNCOLLECTED = """
import atexit, gc, runpy
gc.disable()
atexit.register(gc.freeze)  # what is left at the end is not looked through, either
runpy.run_module("coe_agents", run_name="__main__")
"""
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
COUNCIL = str(ROOT / "benchmarks" / "council_overhead.py")
COUNTED = (50, 450)
"""How many questions are scored under valgrind."""
WHOLE = 2500
"""Questions of a whole command; from 16 MB on, each core has a process."""


def run(tree: Path, *command: str, **options: Any) -> ProcessCost:
    """Runs Python on a version of the package."""
    env = {**os.environ, **ENVIRONMENT, "PYTHONPATH": str(tree)}
    return cost_of(
        [sys.executable, *command], stderr=subprocess.DEVNULL, env=env, cwd=tree, **options
    )


def stay_on_one_core() -> None:
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def measure(tree: Path, folder: Path, n_questions: int) -> dict[str, float]:
    """Returns every figure of one version, once."""
    command = [
        "-m",
        "coe_agents",
        "score",
        str(folder / "score.samples.jsonl"),
        "--clusterer",
        "normalized",
    ]
    score = run(tree, *command)
    page = str(folder / "page.html")
    report = run(
        tree,
        "-m",
        "coe_agents",
        "report",
        str(folder / "report.samples.jsonl"),
        "--clusterer",
        "normalized",
        "--out",
        page,
    )
    base = run(tree, "-c", "import langgraph.graph").seconds
    models = run(tree, "-c", "import torch, transformers").seconds
    graph = json.loads(run(tree, "-c", GRAPH, str(ROOT / "benchmarks")).printed)
    return {
        f"score, {n_questions:,} questions of 30 responses: CPU s": score.seconds,
        "the same on one core, thus in one process: CPU s": run(
            tree, *command, preexec_fn=stay_on_one_core
        ).seconds,
        "its peak memory: MB": score.megabytes,
        f"report, {n_questions // 3:,} questions of 30 responses: CPU s": report.seconds,
        "graph of 3 agents over an empty one: CPU ms": graph["3"],
        "graph of 32 agents over an empty one: CPU ms": graph["32"],
        "import of create_coe_graph over that of langgraph.graph": run(
            tree, "-c", "from coe_agents import create_coe_graph"
        ).seconds
        / base,
        "ask on tinyworld over import torch, transformers": run(
            tree, "-m", "coe_agents", "ask", QUESTION
        ).seconds
        / models,
        "the same without garbage collection": run(tree, "-c", UNCOLLECTED, "ask", QUESTION).seconds
        / models,
    }


def instructions(tree: Path, *command: str) -> int:
    """Returns how many instructions Python executes for a command."""
    count = [
        "valgrind",
        "--trace-children=yes",
        "--tool=callgrind",
        "--callgrind-out-file=/dev/null",
    ]
    count += [
        "--zero-before=PyOS_AfterFork_Child",
        sys.executable,
    ]  # a forked process begins with its parent's count
    env = {**os.environ, **ENVIRONMENT, "PYTHONPATH": str(tree), "PYTHONHASHSEED": "0"}
    # the benchmark of the council ends with 1 where a turn is slow
    done = subprocess.run(
        [*count, *command], check=False, capture_output=True, text=True, env=env, cwd=tree
    )
    return sum(map(int, re.findall(r"Collected : (\d+)", done.stderr)))


def count(tree: Path, folder: Path) -> dict[str, float]:
    """Returns the millions of instructions of each piece of work of one version."""

    def each(fewer: int, more: int, *command: str) -> float:
        """Of one question: `{n}` in the command is how many there are."""
        runs = [
            instructions(tree, *(part.replace("{n}", str(n)) for part in command))
            for n in (fewer, more)
        ]
        return (runs[1] - runs[0]) / (more - fewer)

    samples = str(folder / "{n}.samples.jsonl")
    for n in (*COUNTED, WHOLE):
        write_samples(folder / f"{n}.samples.jsonl", n)
    found = {
        "graph of 3 agents, one question": each(10, 60, "-c", ASK, "3", "{n}"),
        "graph of 32 agents, one question": each(4, 16, "-c", ASK, "32", "{n}"),
        "council of 3 members, one turn, synchronous and not": each(
            4, 36, COUNCIL, "--rounds", "{n}"
        ),
        "score, one question": each(
            *COUNTED, "-c", UNCOLLECTED, "score", samples, "--clusterer", "normalized"
        ),
        f"score of {WHOLE:,} questions, the whole command": instructions(
            tree,
            "-m",
            "coe_agents",
            "score",
            samples.replace("{n}", str(WHOLE)),
            "--clusterer",
            "normalized",
        ),
        "ask on tinyworld, the whole command": instructions(
            tree, "-m", "coe_agents", "ask", QUESTION
        ),
    }
    return {what: number / 1e6 for what, number in found.items()}


def entailment(tree: Path) -> float:
    """Returns the CPU seconds of our clustering over those of the plain reference in the same process."""
    printed = run(tree, "benchmarks/entailment.py").printed
    rows = dict(
        re.findall(r"^(plain reference|ours)  .*? (\d+\.\d+) +\d+\.\d+  ", printed, re.MULTILINE)
    )
    return float(rows["ours"]) / float(rows["plain reference"])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", type=Path, metavar="FOLDER")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--questions", type=int, default=10_000)
    args = parser.parse_args()
    trees = [args.before.resolve(), ROOT]
    commits = [
        subprocess.run(
            ["git", "-C", tree, "log", "-1", "--format=%h of %cs"],
            capture_output=True,
            text=True,
            check=True,
        )
        for tree in trees
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_samples(folder / "score.samples.jsonl", args.questions)
        write_samples(
            folder / "report.samples.jsonl", args.questions // 3, n_words=(12, 12), forms=("{}",)
        )
        rounds = [
            [measure(tree, folder, args.questions) for tree in trees] for _ in range(args.rounds)
        ]
        counts = [count(tree, folder) for tree in trees] if shutil.which("valgrind") else []
    print(f"before: {commits[0].stdout.strip()}; after: {commits[1].stdout.strip()}")
    print(f"medians of {args.rounds} rounds; ratio: after over before [lowest, highest]\n")
    width = max(map(len, rounds[0][0]))
    print(f"{'':{width}} {'before':>8} {'after':>8}  ratio")
    rows = {what: [(old[what], new[what]) for old, new in rounds] for what in rounds[0][0]}
    rows["clustering by entailment over the plain reference"] = [
        (entailment(trees[0]), entailment(trees[1]))
    ]
    for what, pairs in rows.items():
        old, new = (statistics.median(side) for side in zip(*pairs, strict=True))
        ratios = [after / before for before, after in pairs]
        spread = f"[{min(ratios):.2f}, {max(ratios):.2f}]"
        print(f"{what:{width}} {old:8.2f} {new:8.2f}  {statistics.median(ratios):.2f} {spread}")
    if counts:
        print("\nmillions of machine instructions, counted by valgrind\n")
        for what, old in counts[0].items():
            print(f"{what:{width}} {old:8.1f} {counts[1][what]:8.1f}  {counts[1][what] / old:.3f}")


if __name__ == "__main__":
    with result_page():
        main()
