"""Prints when another round pays on tinyworld, and what a rule does that learned it.

    python benchmarks/stopping.py [--runs FOLDER] [--write FILE]

Every question is asked three rounds, whatever was measured. The rule is learned on the calibration questions and judged
on the validation questions. What a rule would have done is replayed on these trajectories: what the agents say in a
round does not depend on who asked for it. "default": ten responses of each agent, then more where they are uncertain
and a debate where they disagree. "few": two responses of each agent, then four and eight more. A further round must
make one more question in 100 right. With --runs, decisions are kept in FOLDER, and a question that is there is not
asked again.
"""

import argparse
import asyncio
import os
import tempfile
from pathlib import Path

os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

from result_page import result_page

from coe_agents import Decision, Measurement, create_coe_graph
from coe_agents.evaluation.calibration import trajectories_of
from coe_agents.evaluation.decisions import DECISIONS, read_run
from coe_agents.evaluation.samples.store import Store
from coe_agents.experiments import StoppingComparison, compare_stopping
from coe_agents.runs import Timings, decide_all, load_items
from coe_agents.runs.group import RunGroup
from coe_agents.runs.runner import units_of
from coe_agents.tinyworld import MAX_COE, tinyworld_agents, tinyworld_clusterer, tinyworld_debate
from coe_agents.tinyworld.correctness import tinyworld_criterion

N_ROUNDS = 3
PRICE = 0.01
REGIMES = ("consensus", "ambiguous", "conflict", "unknown")
SETUPS = {
    "default": (10, {"conflict": tinyworld_debate(), "unknown": tinyworld_debate()}),
    "few": (2, dict.fromkeys(REGIMES, "resample")),
}


class Always:
    """Goes on to the last round."""

    def decide(self, measurement: Measurement, *, round: int, max_rounds: int) -> Decision:
        return Decision("another_round", reason="told to go on")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path)
    given = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        for setup in SETUPS:
            runs = {split: ask(setup, split, given or Path(folder)) for split in ("calibration", "validation")}
            learned, judged = (trajectories_of(read_run(runs[split])) for split in ("calibration", "validation"))
            rule = compare_stopping(learned, max_coe=MAX_COE, price=PRICE).rule
            found = compare_stopping(judged, max_coe=MAX_COE, rule=rule)
            print(f"\n{setup}: learned on {len(learned.rounds)} questions, judged on {len(judged.rounds)}", end="")
            print(f"; without all rounds: {learned.n_left_out} and {judged.n_left_out}")
            show(found)


def ask(setup: str, split: str, folder: Path) -> Path:
    n_samples, strategies = SETUPS[setup]
    graph = create_coe_graph(
        tinyworld_agents(n_samples=n_samples),
        clusterer=tinyworld_clusterer(),
        policy=Always(),
        max_rounds=N_ROUNDS,
        strategies=strategies,
    ).compile()
    items = load_items("tinyworld", split).items
    out = folder / f"{setup}-{split}"
    with (
        Store(out, {"setup": setup, "split": split}, units_of(items), name=DECISIONS) as store,
        Timings(out) as timings,
    ):
        asyncio.run(decide_all(items, RunGroup(graph, tinyworld_criterion(), 4), store, timings))
    return out


def show(found: StoppingComparison) -> None:
    print(f"\n{'stops':12} accuracy  rounds  tokens  net of {PRICE} a round, less {found.comparison.policies[0].name}")
    for each in found.comparison.policies:
        accuracy, rounds, tokens = (each.figures[name][0] for name in ("accuracy_all", "rounds", "tokens"))
        value, low, high = found.net[each.name][1]
        less = f"{value:+.3f} [{low:+.3f}, {high:+.3f}]" if each.differences else ""
        print(f"{each.name:12} {accuracy:8.3f}  {rounds:6.2f}  {tokens:6.0f}  {less}")
    print(f"\n{'another round':28} rounds  right before  after    gain [95 % interval]     the rule asks")
    for each in found.gains:
        gain, low, high = each.gain
        print(
            f"{each.of:28} {each.n:6}  {each.before:12.3f}  {each.after:5.3f}  {gain:+.3f} [{low:+.3f}, {high:+.3f}]  "
            f"{each.asked:13}"
        )


if __name__ == "__main__":
    with result_page():
        main()
