"""Prints what `coe-agents score` costs by the number of questions: CPU seconds, and memory.

    python benchmarks/score_scale.py [--plot FILE] [QUESTIONS ...] [--write FILE]

Three agents answer each question ten times; the samples are invented. Every size is a process of its own.
"""

import argparse
import json
import os
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from process_cost import cost_of
from result_page import result_page

SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)
AGENTS, N_RESPONSES = ("llama", "qwen", "mistral"), 10
COMMAND = str(Path(sys.executable).with_name("coe-agents"))
FORMS = ("{}", "{}.", "It is {}.", "The answer is {}.", "Answer: {}", "**{}**")


class Cost(NamedTuple):
    """What one size costs."""

    n_questions: int
    seconds: float
    megabytes: float


def write_samples(
    path: Path, n_questions: int, *, n_words: tuple[int, int] = (1, 3), forms: Sequence[str] = FORMS
) -> None:
    """Writes responses of so many words that are right as often as the question is easy, each in one of the forms."""
    drawn = random.Random(0)
    words = [
        "".join(drawn.choices("abcdefghijklmnoprstuvw", k=drawn.randint(3, 9)))
        for _ in range(5_000)
    ]
    with path.open("w", encoding="utf-8") as file:
        for number in range(n_questions):
            answers = [
                " ".join(drawn.choices(words, k=drawn.randint(*n_words))).title() for _ in range(5)
            ]
            about = {"id": f"q{number:06}", "question": f"{' '.join(drawn.choices(words, k=10))}?"}
            ease = drawn.random()
            for agent in AGENTS:
                for index in range(N_RESPONSES):
                    said = answers[0] if drawn.random() < ease else drawn.choice(answers)
                    text = drawn.choice(forms).format(said)
                    response = {"text": text, "logprob": -8 * drawn.random(), "n_tokens": 8}
                    row = {
                        **about,
                        "references": answers[:1],
                        "agent": agent,
                        "index": index,
                        **response,
                    }
                    file.write(json.dumps(row) + "\n")


def cost(folder: Path, n_questions: int) -> Cost:
    """Returns what the command takes, in CPU seconds of all its threads, and its peak memory."""
    samples = folder / "s.samples.jsonl"
    write_samples(samples, n_questions)
    command = [COMMAND, "score", samples, "--clusterer", "normalized", "--processes", "1", "--json"]
    took = cost_of(command, env={**os.environ, "OMP_NUM_THREADS": "1"})
    if json.loads(took.printed)["n_scored"] != n_questions:
        raise SystemExit("not all questions were scored")
    return Cost(n_questions, took.seconds, took.megabytes)


def print_costs(costs: Sequence[Cost]) -> None:
    print("questions    CPU s  s per 1,000   peak MB   kB a question beyond the size before")
    for before, each in zip([None, *costs], costs, strict=False):
        line = f"{each.n_questions:9,} {each.seconds:8.1f} {1000 * each.seconds / each.n_questions:12.2f}"
        more = f"{slope([before, each]):8.2f}" if before else ""
        print(f"{line} {each.megabytes:9.0f} {more}")
    if len(costs) > 1:
        print(f"fitted to all sizes: {slope(costs):.2f} kB a question")


def slope(costs: Sequence[Cost]) -> float:
    """Returns the least-squares slope of memory over questions, in kB."""
    n = len(costs)
    x, y = sum(each.n_questions for each in costs) / n, sum(each.megabytes for each in costs) / n
    above = sum((each.n_questions - x) * (each.megabytes - y) for each in costs)
    return 1000 * above / sum((each.n_questions - x) ** 2 for each in costs)


def plot(costs: Sequence[Cost], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    thousands = [each.n_questions / 1000 for each in costs]
    for panel, label, values in (
        (panels[0], "CPU seconds", [each.seconds for each in costs]),
        (panels[1], "peak memory, MB", [each.megabytes for each in costs]),
    ):
        panel.plot(thousands, values, "o-", color="#2a6f97")
        panel.set(xlabel="thousand questions", ylabel=label)
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(alpha=0.3)
    more = [costs[0].megabytes + t - thousands[0] for t in thousands]
    panels[1].plot(thousands, more, "--", color="#999999", label="1 kB a question more")
    panels[1].legend(frameon=False, loc="lower right")
    for panel in panels:
        panel.set(xlim=(0, None), ylim=(0, None))
    figure.suptitle(
        f"coe-agents score: {len(AGENTS)} agents, {N_RESPONSES} responses each, 1,000 resamples",
        fontsize=10,
    )
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sizes", nargs="*", type=int, default=SIZES, metavar="QUESTIONS")
    parser.add_argument("--plot", type=Path, help="where to draw it, a PNG")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        costs = [cost(Path(folder), n) for n in sorted(args.sizes)]
    print_costs(costs)
    if args.plot:
        plot(costs, args.plot)


if __name__ == "__main__":
    with result_page():
        main()
