"""Dependent questions, each behind its own gate, and how uncertainty builds up along the way.

`python examples/sequential_agents.py [PICTURE.png]` walks along tinyworld's periodic table: an element's symbol, the
atomic number of the element that has that symbol, the symbol of the element behind that number, and so on, until a gate
withholds an answer. The last walk begins with an answer that the group is sure of and that is wrong.
"""

import sys
import tempfile
from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

from coe_agents import create_coe_graph
from coe_agents.graph import create_sequential_graph
from coe_agents.tinyworld import tinyworld_agents, tinyworld_clusterer, tinyworld_policy
from coe_agents.tinyworld.chain import next_element_question

STARTS = ("aluminium", "palladium", "gadolinium")


def main(path: Path) -> None:
    gate = create_coe_graph(
        tinyworld_agents(), clusterer=tinyworld_clusterer(), policy=tinyworld_policy()
    ).compile()
    graph = create_sequential_graph(
        gate, next_question=next_element_question, max_steps=12
    ).compile()
    walks = {
        start: graph.invoke({"question": f"What is the chemical symbol for {start}?"})
        for start in STARTS
    }
    for walk in walks.values():
        show(walk)
    draw(walks, path)
    print(f"\npicture: {path}")


def show(walk: Mapping[str, Any]) -> None:
    print()
    aleatoric = epistemic = 0.0
    for step in walk["steps"]:
        aleatoric, epistemic = (
            aleatoric + (step["aleatoric"] or 0),
            epistemic + (step["epistemic"] or 0),
        )
        said = step["answer"] or f"({step['action']}: {step['regime']})"
        print(
            f"{step['question']:<48} {said:<40} CoE {step['coe'] or 0:.3f}, "
            f"so far {aleatoric:.3f} + {epistemic:.3f} nats"
        )
    print(f"ended: {walk['ended']}")


def draw(walks: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """Draws each step's two components as bars, and their sums so far as lines."""
    lengths = [len(walk["steps"]) + 2 for walk in walks.values()]
    figure, axes = plt.subplots(
        1, len(walks), figsize=(14, 5), sharey=True, layout="constrained", width_ratios=lengths
    )
    for axis, (start, walk) in zip(axes, walks.items(), strict=True):
        below = [0.0] * len(walk["steps"])
        for name, colour, marker in (("aleatoric", "tab:blue", "o"), ("epistemic", "tab:red", "s")):
            values = [step[name] or 0.0 for step in walk["steps"]]
            axis.bar(
                range(len(values)),
                values,
                bottom=below,
                color=colour,
                alpha=0.35,
                label=f"{name}, this step",
            )
            axis.plot(
                list(accumulate(values)), color=colour, marker=marker, label=f"{name}, so far"
            )
            below = values
        axis.set_xticks(
            range(len(below)), [short(step) for step in walk["steps"]], rotation=60, ha="right"
        )
        axis.set_title(f"from {start}")
    axes[0].set_ylabel("nats")
    axes[0].legend()
    figure.suptitle(
        "Uncertainty along chains of dependent questions (tinyworld: invented knowledge)"
    )
    figure.savefig(path, dpi=100)
    plt.close(figure)


def short(step: Mapping[str, Any]) -> str:
    what = (
        step["question"]
        .removeprefix("What is the ")
        .replace("chemical symbol for", "symbol,")
        .rstrip("?")
    )
    what = what.replace("atomic number of", "number,")
    return what if step["action"] == "answer" else f"{what}: no answer"


if __name__ == "__main__":
    main(
        Path(sys.argv[1])
        if len(sys.argv) > 1
        else Path(tempfile.mkdtemp()) / "sequential_agents.png"
    )
