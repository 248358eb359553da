"""Prints what the measure costs: 100,000 questions at once.

    python benchmarks/core.py [QUESTIONS] [--write FILE]

Three agents answer each question ten times, in up to five clusters. Each row is a process of its own; its memory is the
peak beyond what the process held with its input in place. One thread; the best of five repetitions.
"""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from result_page import result_page

from coe_agents.uncertainty import cluster_distributions, collaborative_entropy

AGENTS = np.repeat(np.arange(3), 10)
REPEATED = 5
Figures = dict[str, float]


def draw_labels(n_questions: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns labels and length-normalised log-probabilities; which clusters are likely differs by question."""
    generator = np.random.default_rng(0)
    labels, log_probs = (
        np.empty((n_questions, AGENTS.size), dtype=np.int64),
        np.empty((n_questions, AGENTS.size)),
    )
    for own, likely in zip(
        labels, log_probs, strict=True
    ):  # one by one, so that drawing them leaves no peak
        own[:] = generator.choice(5, size=AGENTS.size, p=generator.dirichlet(np.full(5, 0.5)))
        likely[:] = -generator.exponential(size=AGENTS.size)
    return labels, log_probs


def measure_all(n_questions: int, *, by_probability: bool) -> Figures:
    labels, log_probs = draw_labels(n_questions)

    def once() -> None:
        collaborative_entropy(
            cluster_distributions(labels, AGENTS, log_probs=log_probs if by_probability else None)
        )

    return best(once)


def best(once: Callable[[], None]) -> Figures:
    held, walls, cpus = peak(), [], []
    for _ in range(REPEATED):
        wall, cpu = time.perf_counter(), time.process_time()
        once()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return {"seconds": min(walls), "cpu": min(cpus), "megabytes": peak() - held}


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def in_a_process(*case: object) -> Figures:
    """Runs a case in a process of its own, that no other case's memory hides what it takes."""
    done = subprocess.run(
        [sys.executable, __file__, json.dumps(case)], stdout=subprocess.PIPE, check=True
    )
    return json.loads(done.stdout)


def main() -> None:
    if len(sys.argv) > 1 and sys.argv[1].startswith("["):
        n_questions, by_probability = json.loads(sys.argv[1])
        print(json.dumps(measure_all(n_questions, by_probability=by_probability)))
        return
    n_questions = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    ways = {"frequency": False, "probability": True}
    print(f"{n_questions:,} questions in one call each          seconds   CPU s      MB")
    for way, by_probability in ways.items():
        cost = in_a_process(n_questions, by_probability)
        print(
            f"  distributions and CoE, by {way:11} {cost['seconds']:15.2f} {cost['cpu']:7.2f} {cost['megabytes']:7.0f}"
        )


if __name__ == "__main__":
    with result_page():
        main()
