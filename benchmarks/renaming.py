"""Prints how much the figures of `coe-agents score --json` change when all agents are renamed and all lines shuffled.

    python benchmarks/renaming.py [--resamples N] FOLDER [--write FILE]

FOLDER holds `gen_nq_evouna.dev.jsonl.gz` and `gen_mmlupro_calib.dev.jsonl.gz` with its MANIFEST.json: sets with one
response of each agent, where many leads tie. The names are permuted among the agents (reversed, turned by one, and at
random), then replaced by fresh ones; each time the lines are shuffled, too, and spread over two files. Every figure is
compared, intervals among them, and agents by their own counts. What is left should be rounding, at most 1e-12.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from calibn import records
from result_page import result_page

GROUP = (
    "Llama-3.2-1B-Instruct",
    "Qwen2.5-14B-Instruct",
    "claude-3-5-haiku-20241022",
    "gemma-2-9b-it",
    "gpt-4.1-mini",
)
"""Of the 83 models of MMLU-Pro's set; five that differ much."""
COMMAND = str(Path(sys.executable).with_name("coe-agents"))
MOST = 1e-12


def renamings(agents: list[str], drawn: random.Random) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields what is done to the names, and the new name of each agent."""
    shuffled = drawn.sample(agents, len(agents))
    yield "reversed", dict(zip(agents, reversed(agents), strict=True))
    yield "turned by one", dict(zip(agents, [*agents[1:], agents[0]], strict=True))
    yield "at random", dict(zip(agents, shuffled, strict=True))
    yield (
        "fresh names",
        {name: f"{drawn.random():.6f} {place}" for place, name in enumerate(agents)},
    )


def difference(one: Any, other: Any) -> float:
    """Returns the largest difference between two reports; infinite where they are not of one shape."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        if one.keys() != other.keys():
            return float("inf")
        return max((difference(one[key], other[key]) for key in one), default=0.0)
    if isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other):
            return float("inf")
        return max(map(difference, one, other), default=0.0)
    if isinstance(one, int | float) and isinstance(other, int | float):
        return abs(one - other)
    return 0.0 if one == other else float("inf")


def renamed(figures: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    agents = {names[name]: count for name, count in figures["details"]["agents"].items()}
    return {**figures, "details": {**figures["details"], "agents": agents}}


def nq_evouna(folder: Path) -> Iterator[dict[str, Any]]:
    """Yields sentences, judged by people, of the systems that answered every question."""
    found = list(records(folder / "gen_nq_evouna.dev.jsonl.gz"))
    agents = set.intersection(
        *({name for name, said in each["responses"].items() if said} for each in found)
    )
    for record in found:
        about = {"id": record["id"], "question": record["question"], "references": record["gold"]}
        for agent in sorted(agents):
            for index, said in enumerate(record["responses"][agent]):
                yield {
                    **about,
                    "agent": agent,
                    "index": index,
                    "text": said["text"],
                    "correct": said["human"],
                }


def mmlupro(folder: Path) -> Iterator[dict[str, Any]]:
    """Yields the letter that each model of `GROUP` chose, with the confidence that it stated."""
    name = "gen_mmlupro_calib.dev.jsonl.gz"
    (models,) = [
        each["models"]
        for each in json.loads((folder / "MANIFEST.json").read_text())
        if each["file"] == name
    ]
    for record in records(folder / name):
        for agent in GROUP:
            place = models.index(agent)
            stated, letter = record["verb"][place], record["ans"][place]
            yield {
                "id": record["id"],
                "references": record["gold"],
                "agent": agent,
                "index": 0,
                "text": "" if letter == "-" else letter,
                "confidence": None if stated is None else stated / 100,
            }


def examine(name: str, rows: list[dict[str, Any]], *, resamples: int) -> bool:
    """Prints the largest difference of each renaming, and returns whether all are rounding."""
    drawn = random.Random(0)
    largest = 0.0
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / "b.samples.jsonl", Path(folder) / "a.samples.jsonl"]

        def figures(lines: list[str]) -> dict[str, Any]:
            for place, file in enumerate(files):
                file.write_text("".join(lines[place::2]), "utf-8")
            command = [
                COMMAND,
                "score",
                *files,
                "--clusterer",
                "normalized",
                "--resamples",
                str(resamples),
                "--json",
            ]
            return json.loads(
                subprocess.run(command, capture_output=True, check=True, text=True).stdout
            )

        first = figures([json.dumps(row) + "\n" for row in rows])
        scored = f"{first['n_scored']} questions, n_ties {first['n_ties']}, accuracy {first['accuracy']:.4f}"
        print(f"{name}: {scored}, AUROC of CoE {first['scores']['coe']['auroc'][0]:.4f}")
        for what, names in renamings(sorted({row["agent"] for row in rows}), drawn):
            lines = [json.dumps({**row, "agent": names[row["agent"]]}) + "\n" for row in rows]
            drawn.shuffle(lines)
            found = difference(renamed(first, names), figures(lines))
            print(f"  {what:14} largest difference {found:.1e}")
            largest = max(largest, found)
    return largest <= MOST


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--resamples", type=int, default=1000)
    args = parser.parse_args()
    sets = {"gen_nq_evouna": nq_evouna(args.folder), "gen_mmlupro_calib": mmlupro(args.folder)}
    kept = [examine(name, list(rows), resamples=args.resamples) for name, rows in sets.items()]
    if not all(kept):
        raise SystemExit(f"a figure changed by more than {MOST}")


if __name__ == "__main__":
    with result_page():
        main()
