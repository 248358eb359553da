"""Prints how well each way to compare two answers agrees with people.

    python benchmarks/equivalence.py FOLDER [--nli MODEL ...] [--embeddings MODEL] [--write FILE]

FOLDER holds `eq_sas_*.jsonl.gz`: pairs of answers, `label` 2 where people found them the same. MODEL is a
folder or hub id; without --embeddings no cosines are printed. tiny-nli is trained on tinyworld alone and knows
nothing else.
"""

import argparse
import os
from pathlib import Path

os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}

import numpy as np
import torch
from calibn import records
from result_page import result_page
from sklearn.metrics import f1_score, precision_score, recall_score, roc_auc_score
from transformers import AutoModel, AutoTokenizer

from coe_agents.backends import TransformersEntailment
from coe_agents.clustering import BidirectionalEntailment
from coe_agents.clustering.normalized import normalize_answer
from coe_agents.evaluation.scoring.correctness import token_f1
from coe_agents.tinyworld import ENTAILMENT_MODEL, model_folder

SAME = 2


class MeanEmbeddings:
    """Sentence vectors: the mean of a bi-encoder's last states."""

    def __init__(self, model: str) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(model)
        self.model = AutoModel.from_pretrained(model).eval()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        vectors = []
        for start in range(0, len(texts), 64):
            batch = self.tokenizer(
                texts[start : start + 64], padding=True, truncation=True, return_tensors="pt"
            )
            with torch.inference_mode():
                states = self.model(**batch).last_hidden_state
            mask = batch["attention_mask"].unsqueeze(-1)
            vectors += ((states * mask).sum(1) / mask.sum(1)).tolist()
        return vectors


def cosine(one: list[float], other: list[float]) -> float:
    return float(np.dot(one, other) / (np.linalg.norm(one) * np.linalg.norm(other)))


def best_threshold(scores: np.ndarray, same: np.ndarray) -> float:
    """Returns the score from which on "the same" gives the best F1."""
    return float(max(np.unique(scores), key=lambda limit: f1_score(same, scores >= limit)))


def line(what: str, said: np.ndarray, same: np.ndarray, scores: np.ndarray | None = None) -> str:
    auroc = f"{roc_auc_score(same, said if scores is None else scores):9.3f}"
    measures = [
        measure(same, said, zero_division=0.0)
        for measure in (precision_score, recall_score, f1_score)
    ]
    return f"{what:44}" + "".join(f"{value:9.3f}" for value in measures) + auroc


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nli", nargs="*", default=[])
    parser.add_argument("--embeddings")
    args = parser.parse_args()
    torch.set_num_threads(1)
    cosines_of = MeanEmbeddings(args.embeddings) if args.embeddings else None
    for path in sorted(args.folder.glob("eq_sas_*.jsonl.gz")):
        rows = list(records(path))
        pairs = [(row["answer1"], row["answer2"]) for row in rows]
        asked = [row["source_question"] or "" for row in rows]
        same = np.array([row["label"] == SAME for row in rows])
        print(f"{path.name}: {len(rows)} pairs, {same.mean():.1%} the same in meaning")
        print(f"{'':44}{'precision':>9}{'recall':>9}{'F1':>9}{'AUROC':>9}")
        print(
            line(
                "exact match",
                np.array([one.strip() == other.strip() for one, other in pairs]),
                same,
            )
        )
        equal = np.array([normalize_answer(one) == normalize_answer(other) for one, other in pairs])
        print(line("normalised match", equal, same))
        scores = np.array([token_f1(*pair) for pair in pairs])
        limit = best_threshold(scores, same)
        print(line(f"token F1, from {limit:.2f} on (best here)", scores >= limit, same, scores))
        if cosines_of:
            scores = np.array([cosine(*cosines_of.embed_documents(list(pair))) for pair in pairs])
            limit = best_threshold(scores, same)
            print(line(f"cosine, from {limit:.2f} on (best here)", scores >= limit, same, scores))
            for screen in (0.1, 0.2, 0.3, 0.4):
                spared = scores < screen
                print(
                    f"  a screen at {screen}: spares {spared[~same].mean():.1%} of the different pairs, "
                    f"loses {spared[same].mean():.1%} of the same"
                )
        for name in (str(model_folder(ENTAILMENT_MODEL)), *args.nli):
            verdicts = {}
            for dtype in ("float32", "bfloat16"):
                model = TransformersEntailment(name, dtype=dtype)
                sides = [
                    tuple(f"{q} {text}".strip() for text in pair)
                    for q, pair in zip(asked, pairs, strict=True)
                ]
                both = np.array([model.predict([(b, a) for a, b in sides]), model.predict(sides)])
                for strict in (True, False):
                    clusterer = BidirectionalEntailment(model, strict=strict)
                    said = np.array(
                        [labels[0] == labels[1] for labels in clusterer.cluster(pairs, asked)]
                    )
                    rule = f"{Path(name).name}, {dtype}, {'strict' if strict else 'lenient'}"
                    print(
                        line(
                            rule,
                            said,
                            same,
                            both[:, :, 2].min(axis=0) if strict else 1 - both[:, :, 0].max(axis=0),
                        )
                    )
                verdicts[dtype] = both.argmax(axis=2)
            changed = (verdicts["float32"] != verdicts["bfloat16"]).mean()
            print(f"  {changed:.2%} of its verdicts are others in bfloat16")


if __name__ == "__main__":
    with result_page():
        main()
