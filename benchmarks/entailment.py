"""Prints what clustering by entailment costs: ours, a plain reference, uqlm and lm-polygraph where they are at hand.

    python benchmarks/entailment.py [--peers PYTHON] [--without lm-polygraph] [--rounds 1] [--seed 5] [--write FILE]

20 questions of 30 responses each, drawn from a seed, one thread; the least CPU seconds of some rounds, in which all are
measured by turns. The model is a DeBERTa-v2 of 6 layers with random weights, which does its work in full; its verdicts
are then replaced by the truth, so that all ask one judge. PYTHON is the interpreter of an environment with uqlm 0.6.7
or lm-polygraph 0.7.0, which need an older transformers than we.
"""

import argparse
import json
import os
import random
import subprocess
import tempfile
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Literal
from unittest.mock import patch

os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}

import numpy as np
import torch
from calibn import records
from result_page import result_page
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import (
    DebertaV2Config,
    DebertaV2ForSequenceClassification,
    PreTrainedTokenizerFast,
)

from coe_agents.backends import TransformersEntailment
from coe_agents.clustering import BidirectionalEntailment
from coe_agents.clustering.entailment_wrappers import CachedEntailment
from coe_agents.clustering.normalized import normalize_answer

HERE = Path(__file__).parent
ASKED = [record["question"] for record in records(HERE / "data" / "nq_open_200.jsonl")]
WORDINGS = {"{}": 40, "It is {}.": 4, "The answer would be {}.": 3, "{}.": 1}
SPECIAL = ["[PAD]", "[CLS]", "[SEP]", "[UNK]"]
PEERS = ("uqlm", "lm-polygraph")
ALL_POSITIONS = patch(
    "coe_agents.backends.entailment_transformers.short_positions", lambda *_: nullcontext()
)
ALL_TOKENS = patch(
    "coe_agents.backends.entailment_transformers.first_token", lambda *_: nullcontext()
)


def draw_questions(seed: int, *, n_questions: int = 20, n_responses: int = 30) -> list[dict]:
    """Returns questions with responses and the meaning of each, about 7.4 texts and 3.9 meanings a question."""
    rng = random.Random(seed)
    words = sorted({word for question in ASKED for word in question.split() if len(word) > 4})
    data = []
    for question in ASKED[:n_questions]:
        answers = [
            " ".join(rng.sample(words, rng.choice([1, 2, 2, 3])))
            for _ in range(rng.choice([2, 3, 4, 5, 6]))
        ]
        meanings = rng.choices(
            range(len(answers)), [0.6**place for place in range(len(answers))], k=n_responses
        )
        wordings = rng.choices(list(WORDINGS), list(WORDINGS.values()), k=n_responses)
        responses = [
            wording.format(answers[meaning])
            for wording, meaning in zip(wordings, meanings, strict=True)
        ]
        data.append({"question": question, "responses": responses, "meanings": meanings})
    return data


def save_model(folder: Path, texts: list[str], *, hidden: int = 384, n_layers: int = 6) -> None:
    """Saves a DeBERTa-v2 with random weights, by default shaped like v3's small ones, and a tokenizer of `texts`."""
    torch.manual_seed(0)
    pieces = Tokenizer(models.Unigram())
    pieces.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=2000, special_tokens=SPECIAL, unk_token=SPECIAL[3], show_progress=False
    )
    pieces.train_from_iterator(texts, trainer)
    pieces.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )
    names = {f"{SPECIAL[place][1:4].lower()}_token": SPECIAL[place] for place in range(4)}
    PreTrainedTokenizerFast(tokenizer_object=pieces, model_max_length=512, **names).save_pretrained(
        folder
    )
    labels = dict(enumerate(("contradiction", "neutral", "entailment")))
    config = DebertaV2Config(
        vocab_size=pieces.get_vocab_size(), hidden_size=hidden, num_hidden_layers=n_layers,
        num_attention_heads=hidden // 64, intermediate_size=4 * hidden, pooler_hidden_size=hidden,
        relative_attention=True, position_buckets=256, norm_rel_ebd="layer_norm",
        share_att_key=True, pos_att_type=["p2c", "c2p"], position_biased_input=False, type_vocab_size=0,
        pad_token_id=0, id2label=labels, label2id={label: place for place, label in labels.items()},
    )  # fmt: skip
    DebertaV2ForSequenceClassification(config).save_pretrained(folder)
    settings = folder / "tokenizer_config.json"  # the name that older transformers know
    settings.write_text(
        json.dumps(
            json.loads(settings.read_text()) | {"tokenizer_class": "PreTrainedTokenizerFast"}
        )
    )


class JudgedByTruth:
    """The model does its work, which is counted; the verdict is the truth."""

    def __init__(self, model: TransformersEntailment, data: list[dict]) -> None:
        self.model = model
        self.meanings = {
            f"{each['question']} {text}": (i, meaning)
            for i, each in enumerate(data)
            for text, meaning in zip(each["responses"], each["meanings"], strict=True)
        }
        self.pairs = self.passes = self.tokens = self.padding = 0
        self.hook = model.load().model.register_forward_pre_hook(self._count, with_kwargs=True)

    def predict(self, pairs):
        self.model.predict(pairs)
        same = [self.meanings[one] == self.meanings[other] for one, other in pairs]
        return np.array([[0.0, 0.0, 1.0] if each else [1.0, 0.0, 0.0] for each in same])

    def _count(self, _, __, given) -> None:
        mask = given["attention_mask"]
        self.pairs += len(mask)
        self.passes += 1
        self.tokens += int(mask.sum())
        self.padding += int((mask == 0).sum())


def ours(
    model: TransformersEntailment,
    data: list[dict],
    *,
    cuts: Literal["positions", True, False] = True,
    apart: bool = False,
    repeat: int = 1,
    cached: bool = False,
) -> dict:
    judge = JudgedByTruth(model, data)
    clusterer = BidirectionalEntailment(
        CachedEntailment(judge) if cached else judge, merge_variants=not apart
    )
    with (
        ALL_POSITIONS if cuts is False else nullcontext(),
        nullcontext() if cuts is True else ALL_TOKENS,
    ):
        start = time.process_time()
        for _ in range(repeat):
            labels = clusterer.cluster(
                [each["responses"] for each in data], [each["question"] for each in data]
            )
    seconds = time.process_time() - start
    judge.hook.remove()
    return {
        "seconds": seconds, "labels": labels, "pairs": judge.pairs, "passes": judge.passes,
        "padding": judge.padding / (judge.padding + judge.tokens),
    }  # fmt: skip


def plain(model: TransformersEntailment, data: list[dict]) -> dict:
    """The greedy algorithm, question by question and response by response, both directions in one pass."""
    judge = JudgedByTruth(model, data)
    start, labels = time.process_time(), []
    with ALL_POSITIONS, ALL_TOKENS:
        for each in data:
            representatives: list[str] = []
            cluster: dict[str, int] = {}
            for text in dict.fromkeys(
                f"{each['question']} {response}" for response in each["responses"]
            ):
                pairs = [
                    pair for other in representatives for pair in ((other, text), (text, other))
                ]
                verdicts = (
                    judge.predict(pairs)[:, 2].reshape(-1, 2).all(axis=1) if pairs else np.array([])
                )
                cluster[text] = int(verdicts.argmax()) if verdicts.any() else len(representatives)
                if cluster[text] == len(representatives):
                    representatives.append(text)
            labels.append(
                [cluster[f"{each['question']} {response}"] for response in each["responses"]]
            )
    seconds = time.process_time() - start
    judge.hook.remove()
    return {"seconds": seconds, "labels": labels, "pairs": judge.pairs, "passes": judge.passes}


def ask_peer(python: str, peer: str, folder: str) -> dict:
    command = [python, str(HERE / "entailment_peers.py"), peer, folder]
    printed = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    return json.loads(printed.splitlines()[-1])


def by_first_appearance(labels: list[list[int]]) -> list[list[int]]:
    return [[list(dict.fromkeys(row)).index(label) for label in row] for row in labels]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--peers", help="the interpreter of an environment with uqlm and lm-polygraph"
    )
    parser.add_argument(
        "--without", choices=PEERS, action="append", default=[], help="a peer that PYTHON lacks"
    )
    parser.add_argument(
        "--rounds", type=int, default=1, help="how often all are measured, by turns"
    )
    parser.add_argument("--seed", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(1)
    data = draw_questions(args.seed)
    texts = [set(each["responses"]) for each in data]
    print(
        f"{len(data)} questions; of each {np.mean([len(each['responses']) for each in data]):.0f} responses, "
        f"{np.mean([len(each) for each in texts]):.1f} texts, "
        f"{np.mean([len({normalize_answer(text) for text in each}) for each in texts]):.1f} but for case, punctuation "
        f"and articles, {np.mean([len(set(each['meanings'])) for each in data]):.1f} meanings"
    )
    truth = by_first_appearance([each["meanings"] for each in data])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_model(folder, [*ASKED, *(text for each in texts for text in sorted(each))])
        (folder / "questions.json").write_text(json.dumps(data))
        model, half = TransformersEntailment(name), TransformersEntailment(name, dtype="bfloat16")
        for each in (model, half):
            each.predict([("warm", "up")] * 2)
        run = {peer: partial(ask_peer, args.peers, peer, name) for peer in PEERS if args.peers}
        run |= {
            "plain reference": partial(plain, model, data),
            "ours, all positions and tokens, variants apart": partial(
                ours, model, data, cuts=False, apart=True
            ),
            "ours, all tokens, variants apart": partial(
                ours, model, data, cuts="positions", apart=True
            ),
            "ours, variants apart": partial(ours, model, data, apart=True),
            "ours": partial(ours, model, data),
            "ours, bfloat16": partial(ours, half, data),
            "ours, twice": partial(ours, model, data, repeat=2),
            "ours, twice, cached": partial(ours, model, data, repeat=2, cached=True),
        }
        for peer in args.without:
            run.pop(peer, None)
        rounds = [{what: measure() for what, measure in run.items()} for _ in range(args.rounds)]
    rows = rounds[0]
    for what, row in rows.items():
        row["seconds"] = min(each[what]["seconds"] for each in rounds)
    base = rows["uqlm" if "uqlm" in rows else "plain reference"]["seconds"]
    print(f"{'':46} {'pairs':>6} {'passes':>7} {'padding':>8} {'CPU s':>6} {'ratio':>6}  partition")
    for what, row in rows.items():
        right = "the truth" if by_first_appearance(row["labels"]) == truth else "ANOTHER"
        padding = f"{row['padding']:.1%}" if "padding" in row else ""
        print(
            f"{what:46} {row['pairs']:6} {row['passes']:7} {padding:>8} {row['seconds']:6.1f} "
            f"{row['seconds'] / base:6.2f}  {right}"
        )


if __name__ == "__main__":
    with result_page():
        main()
