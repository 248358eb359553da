"""Prints what a hundred million questions would cost on paper, from figures measured on saved responses of real models.

    python benchmarks/plan.py FOLDER [--questions 100000000] [--replicas 16] [options] [--write FILE]

FOLDER holds the sets named here, as `gen_*.dev.jsonl.gz`. Of each question of NQ and TriviaQA 30 responses are drawn
and dealt to three agents of ten. They come from twelve models in several prompt styles, so that they differ more than
ten samples of three models would: texts, clusters and pairs are rather too many. What is printed is

- measured: here and now on those responses, or by the benchmark that is named;
- ASSUMED: a number that was given, or its default. No GPU could be measured here. The defaults for models follow from
  their size (so many tokens a second, divided by billions of weights). To measure yours, run `vllm bench serve` against
  a server under as many requests as it will have, and `benchmarks/entailment.py` where the entailment model will run;
- computed from both.
"""

import argparse
import gzip
import io
import json
import math
import random
import re
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow
import pyarrow.parquet
from calibn import EQUALS, records, to_samples
from result_page import result_page

from coe_agents.backends import TransformersEntailment
from coe_agents.clustering import BidirectionalEntailment, NormalizedMatch, cluster_many
from coe_agents.clustering.entailment_wrappers import CountingEntailment
from coe_agents.clustering.normalized import normalize_answer
from coe_agents.evaluation import Samples, score
from coe_agents.measurement.weighting import response_text
from coe_agents.prompts import BRIEF_ANSWER
from coe_agents.tinyworld import ENTAILMENT_MODEL, model_folder

SETS = ("nq_calibn", "triviaqa_calibn")
AGENTS, N_SAMPLES, N_JUDGED = ("a", "b", "c"), 10, 25

MEASURED = {"client_ms": (5, "served_sampling.py", "CPU of a request")}
ASSUMED = {
    "tokens_per_second": (40_000, "output of a GPU, times billions of weights"),
    "prompt_tokens_per_second": (150_000, "read by a GPU, likewise"),
    "pairs_per_second": (2_000, "judged by a GPU with the entailment model"),
    "batch": (64, "pairs of a pass"),
    "gpu_gb": (80, "memory of a GPU"),
    "headroom": (1.3, "memory of a server, in sizes of its 16-bit weights"),
    "template_tokens": (15, "of a prompt, around what is said"),
}
"""Options, their defaults and what they are."""


class Unlike:
    """Takes no two texts for one meaning; those equal but for form are not asked about at all."""

    def predict(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        return np.tile([0.0, 1.0, 0.0], (len(pairs), 1))


def dealt(record: dict, rng: random.Random) -> list[dict]:
    """Returns a question's 30 responses as a run of ours would keep them."""
    rows = list(to_samples(record, tuple(record["responses"])))
    drawn = rng.sample(rows, len(AGENTS) * N_SAMPLES)
    return [
        {
            **row,
            "agent": AGENTS[place % len(AGENTS)],
            "round": 0,
            "index": place // len(AGENTS),
            "error": None,
        }
        for place, row in enumerate(drawn)
    ]


def measure(folder: Path) -> dict[str, float]:
    """Returns figures of a question."""
    rng = random.Random(0)
    found = [record for name in SETS for record in records(folder / f"gen_{name}.dev.jsonl.gz")]
    questions = [dealt(record, rng) for record in found]
    n, rows = len(questions), [row for question in questions for row in question]
    texts = [[response_text(row) for row in question] for question in questions]
    asked = [record["question"] for record in found]
    unlike = CountingEntailment(Unlike())
    start = time.process_time()
    labels = cluster_many(texts, questions=asked, clusterer=BidirectionalEntailment(unlike))
    clustering = time.process_time() - start
    judge = CountingEntailment(TransformersEntailment(str(model_folder(ENTAILMENT_MODEL))))
    cluster_many(
        texts[:N_JUDGED], questions=asked[:N_JUDGED], clusterer=BidirectionalEntailment(judge)
    )
    with TemporaryDirectory() as scratch:
        path = Path(scratch) / "run.samples.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        start = time.process_time()
        with Samples([path]) as opened:
            score(opened, clusterer=NormalizedMatch())
        scoring = time.process_time() - start
        plain = path.read_bytes()
    table = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), table, compression="zstd")
    spoken = [row for record in found for row in to_samples(record, EQUALS)]
    figures = {
        "questions": n,
        "characters of a question": np.mean([len(record["question"]) for record in found]),
        "characters of a token": sum(len(row["text"]) for row in spoken)
        / sum(row["n_tokens"] for row in spoken),
        "texts": np.mean([len(set(each)) for each in texts]),
        "texts but for form": np.mean([len(set(map(normalize_answer, each))) for each in texts]),
        "clusters, if no two of these mean the same": np.mean([max(each) + 1 for each in labels]),
        "entailment pairs, if so": unlike.n_pairs / n,
        f"entailment pairs, as tiny-nli judges {N_JUDGED} questions": judge.n_pairs / N_JUDGED,
        "CPU ms to cluster, without the entailment model": 1000 * clustering / n,
        "CPU ms to read, cluster by match and score": 1000 * scoring / n,
        "bytes as JSON lines": len(plain) / n,
        "bytes as JSON lines, gzip": len(gzip.compress(plain, 6)) / n,
        "bytes as Parquet, zstd": len(table.getvalue()) / n,
    }
    for model in EQUALS:
        figures[f"tokens of a response, {model}"] = np.mean(
            [r["n_tokens"] for r in spoken if r["agent"] == model]
        )
    return {name: float(value) for name, value in figures.items()}


def billions(model: str) -> float:
    """Returns how many weights a model's name says it has: "70B" 70, "8x7B" 56, all experts of a mixture together."""
    experts, size = re.findall(r"(?:(\d+)x)?(\d+(?:\.\d+)?)b\b", model.lower())[0]
    return float(experts or 1) * float(size)


def totals(args: argparse.Namespace, per: dict[str, float]) -> dict[str, float]:
    """Returns what all questions cost."""
    thousand_hours = args.questions / 3600 / 1000
    prompt = per["characters of a prompt"] / per["characters of a token"] + args.template_tokens
    found, days = {}, []
    for model in EQUALS:
        size = billions(model)
        n_gpus = 2 ** max(0, math.ceil(math.log2(size * 2 * args.headroom / args.gpu_gb)))
        spoken = N_SAMPLES * per[f"tokens of a response, {model}"]
        seconds = (
            spoken * size / args.tokens_per_second + prompt * size / args.prompt_tokens_per_second
        )
        days.append(seconds * thousand_hours * 1000 / n_gpus / args.replicas / 24)
        found |= {
            f"{model}: output tokens, billions": spoken * args.questions / 1e9,
            f"{model}: prompt tokens, billions": prompt * args.questions / 1e9,
            f"{model}: GPU hours, thousands": seconds * thousand_hours,
            f"{model}: days on {args.replicas} replicas of {n_gpus} GPUs": days[-1],
        }
    pairs = args.questions * max(
        value for name, value in per.items() if name.startswith("entailment pairs")
    )
    scoring = (
        per["CPU ms to read, cluster by match and score"]
        + per["CPU ms to cluster, without the entailment model"]
    )
    requests = len(EQUALS) * args.questions
    return found | {
        "days for all, side by side": max(days),
        "requests, millions": requests / 1e6,
        "requests a second, to all models": requests / max(days) / 86_400,
        "CPU hours of clients, thousands": requests * args.client_ms / 3.6e6 / 1000,
        "entailment: pairs, billions": pairs / 1e9,
        f"entailment: passes of {args.batch:g} pairs, millions": pairs / args.batch / 1e6,
        "entailment: GPU hours, thousands": pairs / args.pairs_per_second / 3.6e6,
        "entailment: GPUs that keep up with sampling": pairs
        / args.pairs_per_second
        / max(days)
        / 86_400,
        "CPU hours to cluster and score, thousands": scoring / 1000 * thousand_hours,
        "samples as JSON lines, gzip, TB": per["bytes as JSON lines, gzip"] * args.questions / 1e12,
        "samples as Parquet, TB": per["bytes as Parquet, zstd"] * args.questions / 1e12,
    }


def line(name: str, value: float) -> None:
    cell = f"{value:,.0f}" if value >= 1000 else f"{value:,.4g}"
    print(f"{name:54}{cell:>16}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--questions", type=int, default=10**8, metavar="N")
    parser.add_argument(
        "--replicas", type=int, default=16, metavar="R", help="servers of each model"
    )
    options = ASSUMED | {
        name: (default, f"{what}, by {source}")
        for name, (default, source, what) in MEASURED.items()
    }
    for name, (default, what) in options.items():
        parser.add_argument(
            f"--{name.replace('_', '-')}", type=float, default=default, metavar="N", help=what
        )
    args = parser.parse_args()

    per = measure(args.folder)
    print(
        f"MEASURED, of a question with {len(AGENTS)} agents of {N_SAMPLES} samples; {', '.join(SETS)}"
    )
    for name, value in per.items():
        line(name, value)
    per["characters of a prompt"] = per["characters of a question"] + len(BRIEF_ANSWER)
    print("\nMEASURED by the benchmark that is named")
    for name, (_, source, _) in MEASURED.items():
        line(f"{name}, {source}", getattr(args, name))
    print("\nASSUMED")
    for name in ASSUMED:
        line(name, getattr(args, name))
    print(f"\nCOMPUTED for {args.questions:,} questions")
    for name, value in totals(args, per).items():
        line(name, value)


if __name__ == "__main__":
    with result_page():
        main()
