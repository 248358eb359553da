"""Reads the saved generations of the "calibn" sets (`gen_*_calibn*.dev.jsonl.gz`) as samples, for the other scripts."""

import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from coe_agents.evaluation import Samples

EQUALS = ("Llama-3-70B-Instruct", "Qwen2-72B-Instruct", "Mixtral-8x7B-Instruct-v0.1")
UNEQUALS = ("Llama-3-70B-Instruct", "gemma-2-2b-it", "Llama-2-7b-chat")
SETS = ("nq_calibn", "triviaqa_calibn", "nq_calibn_train", "triviaqa_calibn_train")


@contextmanager
def samples(folder: Path, name: str, models: tuple[str, ...]) -> Iterator[Samples]:
    """Opens one set with the responses of some models; a judge's verdict is the label."""
    with TemporaryDirectory() as scratch:
        path = Path(scratch) / f"{name}.samples.jsonl"
        with gzip.open(folder / f"gen_{name}.dev.jsonl.gz", "rt", encoding="utf-8") as lines, path.open("w") as out:
            for line in lines:
                out.writelines(json.dumps(sample) + "\n" for sample in to_samples(json.loads(line), models))
        with Samples([path]) as opened:
            yield opened


def to_samples(record: dict, models: tuple[str, ...]) -> Iterator[dict]:
    if not all(record["responses"].get(model) for model in models):
        return
    for model in models:
        for index, response in enumerate(record["responses"][model]):
            yield {
                "id": record["id"],
                "question": record.get("question") or "",
                "references": [str(gold) for gold in record["gold"]],
                "agent": model,
                "index": index,
                "text": response["text"] if response.get("text") is not None else response.get("answer") or "",
                "answer": response.get("answer"),
                "logprob": response.get("sum_logprob"),
                "n_tokens": response.get("n_tokens"),
                "correct": None if response.get("judge") is None else bool(response["judge"]),
                "verbal_conf": response.get("verbal_conf"),
            }
