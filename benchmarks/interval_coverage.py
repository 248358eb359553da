"""Prints how often 95 % intervals hold the true CoE of three agents, their widths, and what they cost.

    python benchmarks/interval_coverage.py [FOLDER] [--repeated N] [--resamples N] [--write FILE]

In each world the agents' distributions are known; responses are drawn from them, and each method's interval is compared
with CoE of the distributions. FOLDER holds `gen_mathl5_zeroeval.dev.jsonl.gz`, one answer of each of about 44 models to
hard questions of mathematics: the answers of every third model are taken for the distribution of an agent, and the
repetitions go through the questions.
"""

import argparse
import time
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

import numpy as np
from calibn import records
from percentile_interval import percentile_interval
from result_page import result_page

from coe_agents.uncertainty import coe_interval, collaborative_entropy

METHODS = {
    "hull": lambda *responses, **options: coe_interval(*responses, **options).total,
    "percentile": lambda *responses, **options: percentile_interval(*responses, **options)[0],
}
N_AGENTS, N_RESPONSES = 3, (3, 5, 10, 20)
TAIL = 1.0 / np.arange(1, 31) ** 1.5
WORLDS = {
    "sure, agreeing": [[0.95, 0.03, 0.02]] * N_AGENTS,
    "torn in two": [[0.5, 0.5]] * N_AGENTS,
    "disagreeing": [[0.9, 0.05, 0.05], [0.05, 0.9, 0.05], [0.05, 0.05, 0.9]],
    "moderately unsure": [[0.6, 0.25, 0.1, 0.05], [0.4, 0.4, 0.1, 0.1], [0.5, 0.2, 0.2, 0.1]],
    "long tail": [TAIL / TAIL.sum()] * N_AGENTS,
}


def mathematics(folder: Path) -> Iterator[np.ndarray]:
    """Yields the distributions of three agents for each question; answers that are missing are left out."""
    for record in records(folder / "gen_mathl5_zeroeval.dev.jsonl.gz"):
        answers = [responses[0]["answer"] for _, responses in sorted(record["responses"].items())]
        given = [answer.strip() for answer in answers if answer]
        clusters = sorted(set(given))
        rows = np.array([[given[i::N_AGENTS].count(one) for one in clusters] for i in range(N_AGENTS)], dtype=float)
        yield rows / rows.sum(axis=1, keepdims=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeated", type=int, default=2000)
    parser.add_argument("--resamples", type=int, default=1000)
    parser.add_argument("folder", nargs="?", type=Path)
    options = parser.parse_args()
    worlds = {name: [np.array(rows)] for name, rows in WORLDS.items()}
    if options.folder:
        worlds["mathematics"] = list(mathematics(options.folder))
    print(
        f"{options.repeated} repetitions, {options.resamples} resamples: share that holds the true CoE (mean width)\n"
    )
    head = "".join(f"{method:>17}" for method in METHODS)
    print(f"{'world':19}{'true CoE':>9}{'responses':>11}{head}")
    spent = dict.fromkeys(METHODS, 0.0)
    for name, truths in worlds.items():
        for n_responses in N_RESPONSES:
            show(name, truths, n_responses, options, spent)
    n_intervals = options.repeated * len(N_RESPONSES) * len(worlds)
    costs = "".join(f"{1e3 * seconds / n_intervals:17.2f}" for seconds in spent.values())
    print(f"\n{'CPU ms an interval':39}{costs}")


def show(
    name: str, truths: list[np.ndarray], n_responses: int, options: argparse.Namespace, spent: dict[str, float]
) -> None:
    rng = np.random.default_rng(0)
    agents = np.repeat(np.arange(N_AGENTS), n_responses)
    held, widths = dict.fromkeys(METHODS, 0), dict.fromkeys(METHODS, 0.0)
    for case, truth in enumerate(islice(cycle(truths), options.repeated)):
        true = collaborative_entropy(truth).total
        labels = np.concatenate([rng.choice(row.size, size=n_responses, p=row) for row in truth])
        for method, interval in METHODS.items():
            start = time.process_time()
            low, high = interval(labels, agents, n_resamples=options.resamples, seed=case)
            spent[method] += time.process_time() - start
            held[method] += low - 1e-9 <= true <= high + 1e-9
            widths[method] += high - low
    mean = np.mean([collaborative_entropy(truth).total for truth in truths])
    cells = (f"{held[method] / options.repeated:.3f} ({widths[method] / options.repeated:.2f})" for method in METHODS)
    print(f"{name:19}{mean:9.2f}{n_responses:11d}" + "".join(f"{cell:>17}" for cell in cells), flush=True)


if __name__ == "__main__":
    with result_page():
        main()
