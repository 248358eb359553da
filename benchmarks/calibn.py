"""Reads the saved generations of the "calibn" sets (`gen_*_calibn*.dev.jsonl.gz`) as samples, for the other scripts."""

import gzip
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from coe_agents.evaluation import Samples
from coe_agents.evaluation.calibration.calibrate import Judged
from coe_agents.uncertainty.ties import shares_lead

# chosen by the models' own accuracies, which `weights.py` prints: one of 70 billion parameters beside two of 2
# and 7 billion that are right about half as often, and three that differ by a few hundredths
EQUALS = ("Llama-3-70B-Instruct", "Qwen2-72B-Instruct", "Mixtral-8x7B-Instruct-v0.1")
UNEQUALS = ("Llama-3-70B-Instruct", "gemma-2-2b-it", "Llama-2-7b-chat")
SETS = ("nq_calibn", "triviaqa_calibn", "nq_calibn_train", "triviaqa_calibn_train")


def own_accuracies(rows: Iterable[Judged]) -> dict[str, float]:
    """How often each agent is right by itself: the mean share of its own leading clusters that is right."""
    right: dict[str, list[float]] = {}
    for row in rows:
        verdicts = np.array(row.verdicts)
        for name, agent in row.measurement.agents.items():
            mine = np.array(
                [agent.distribution.get(text, 0.0) for text in row.measurement.representatives]
            )
            right.setdefault(name, []).append(float(verdicts[shares_lead(mine)].mean()))
    return {name: float(np.mean(shares)) for name, shares in right.items()}


def records(path: Path) -> Iterator[dict]:
    """Yields the records of a file of JSON lines, compressed or not."""
    with (
        gzip.open(path, "rt", encoding="utf-8")
        if path.suffix == ".gz"
        else path.open(encoding="utf-8") as lines
    ):
        yield from map(json.loads, lines)


@contextmanager
def samples(folder: Path, name: str, models: tuple[str, ...]) -> Iterator[Samples]:
    """Opens one set with the responses of some models; the verdict of a person or a judge is the label."""
    with TemporaryDirectory() as scratch:
        path = Path(scratch) / f"{name}.samples.jsonl"
        with path.open("w") as out:
            for record in records(folder / f"gen_{name}.dev.jsonl.gz"):
                out.writelines(json.dumps(sample) + "\n" for sample in to_samples(record, models))
        with Samples([path]) as opened:
            yield opened


def to_samples(record: dict, models: tuple[str, ...]) -> Iterator[dict]:
    if not all(record["responses"].get(model) for model in models):
        return
    for model in models:
        for index, response in enumerate(record["responses"][model]):
            verdict = response.get("human", response.get("judge"))
            yield {
                "id": record["id"],
                "question": record.get("question") or "",
                "references": [str(gold) for gold in record["gold"]],
                "agent": model,
                "index": index,
                "text": response["text"]
                if response.get("text") is not None
                else response.get("answer") or "",
                "answer": response.get("answer"),
                "logprob": response.get("sum_logprob"),
                "n_tokens": response.get("n_tokens"),
                "correct": None if verdict is None else bool(verdict),
                "confidence": response.get("verbal_conf"),
            }
