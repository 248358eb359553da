"""Prints what comparing mathematics by value changes, against comparing normalised texts.

    python benchmarks/mathematics.py FOLDER [--write FILE]

FOLDER holds `gen_gsm_zeroeval.dev.jsonl.gz` and `gen_mathl5_zeroeval.dev.jsonl.gz`, and their MANIFEST.json. Each
answer is greedy, one of a model. "joined" and "split" count the pairs of different answers to one question that only
the second, or only the first, clusterer puts together.
"""

import sys
import time
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

from actions import opened
from calibn import to_samples
from defaults import MATHS, generations
from result_page import result_page

from coe_agents.clustering import Clusterer, MathematicsMatch, NormalizedMatch
from coe_agents.evaluation.scoring.scores import ScoringSetup, report, score_samples

CLUSTERERS: tuple[Clusterer, ...] = (NormalizedMatch(), MathematicsMatch())


def main() -> None:
    folder = Path(sys.argv[1])
    print(
        "accuracy and AUROC of CoE [95 %], by reference; first of normalised texts, then by value\n"
    )
    print(f"{'':25} {'n':>4}  {'accuracy':15}  {'AUROC':45}  seconds")
    for name in ("gsm_zeroeval", "mathl5_zeroeval"):
        asked = list(generations(folder, name))
        common = set.intersection(
            *({model for model, said in each["responses"].items() if said} for each in asked)
        )
        for title, chosen in MATHS.items():
            models = chosen or tuple(sorted(common))
            samples = [sample for record in asked for sample in to_samples(record, models)]
            print(f"{name:17} {title:7} {'  '.join(columns(samples))}", flush=True)
        joined, split = differences(asked)
        print(f"{name:17} {joined} pairs joined, {split} split\n")


def columns(samples: list[dict]) -> Iterator[str]:
    """Yields the cells of a line: how many questions, and each figure before and after."""
    found = []
    seconds = []
    for clusterer in CLUSTERERS:
        start = time.perf_counter()
        with opened(samples) as questions:
            found.append(report(score_samples(questions, ScoringSetup(clusterer))))
        seconds.append(time.perf_counter() - start)
    yield f"{found[0]['n_scored']:4}"
    yield " -> ".join(f"{each['accuracy']:.3f}" for each in found)
    areas = [each["scores"]["coe"]["auroc"] for each in found]
    yield " -> ".join(f"{area:.3f} [{low:.3f}, {high:.3f}]" for area, low, high in areas)
    yield " -> ".join(f"{each:.1f}" for each in seconds)


def differences(asked: list[dict]) -> tuple[int, int]:
    """Returns how many pairs of answers only the second clusterer joins, and how many only the first."""
    joined = split = 0
    for record in asked:
        answers = set()
        for responses in record["responses"].values():
            answers |= {response["answer"] for response in responses if response["answer"]}
        texts = sorted(answers)
        as_text, by_value = (each.cluster([texts], [""])[0] for each in CLUSTERERS)
        for one, other in combinations(range(len(texts)), 2):
            same_text, same_value = as_text[one] == as_text[other], by_value[one] == by_value[other]
            joined += same_value and not same_text
            split += same_text and not same_value
    return joined, split


if __name__ == "__main__":
    with result_page():
        main()
