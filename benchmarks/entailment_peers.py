"""Clusters the questions of `entailment.py` with uqlm or lm-polygraph; run by it, in an environment that has them."""

import json
import sys
import time
from pathlib import Path

import torch


class Recording:
    """A tokenizer that remembers the pairs of its last call."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.pairs = []

    def __call__(self, first, second=None, **options):
        self.pairs = list(first) if second is None else list(zip(first, second, strict=True))
        return self.tokenizer(*([first] if second is None else [first, second]), **options)

    def __getattr__(self, name):
        return getattr(self.tokenizer, name)


def judge_by_truth(model, tokenizer, data, separator):
    """Lets the model work and puts the truth in the place of its verdicts; returns what it did."""
    tally = {"pairs": 0, "passes": 0}
    meanings = {
        f"{each['question']}{separator}{text}": (i, meaning)
        for i, each in enumerate(data)
        for text, meaning in zip(each["responses"], each["meanings"], strict=True)
    }

    def hook(_, __, output):
        same = torch.tensor([meanings[one] == meanings[other] for one, other in tokenizer.pairs])
        tally["passes"] += 1
        tally["pairs"] += len(same)
        output.logits[:] = torch.where(
            same[:, None], torch.tensor([0.0, 0.0, 9.0]), torch.tensor([9.0, 0.0, 0.0])
        )
        return output

    model.register_forward_hook(hook)
    return tally


def uqlm(folder, data):
    from uqlm.nli.cluster import SemanticClusterer
    from uqlm.nli.nli import NLI

    nli = NLI(device="cpu", nli_model_name=str(folder))
    nli.predict("warm", "up")
    nli.tokenizer = Recording(nli.tokenizer)
    tally = judge_by_truth(nli.model, nli.tokenizer, data, "\n")
    start, labels = time.process_time(), []
    for each in data:
        found = SemanticClusterer(nli).cluster_responses(
            each["responses"], prompt=each["question"]
        )[1]
        cluster = {place: number for number, places in enumerate(found) for place in places}
        labels.append([cluster[place] for place in range(len(each["responses"]))])
    return {"seconds": time.process_time() - start, "labels": labels, **tally}


def polygraph(folder, data):
    from lm_polygraph.stat_calculators.semantic_classes import SemanticClassesCalculator
    from lm_polygraph.stat_calculators.semantic_matrix import SemanticMatrixCalculator
    from lm_polygraph.utils.deberta import MultilingualDeberta

    nli = MultilingualDeberta(str(folder), device="cpu")
    nli.deberta(**nli.deberta_tokenizer([("warm", "up")], return_tensors="pt"))
    nli._deberta_tokenizer = Recording(nli.deberta_tokenizer)
    texts = [[f"{each['question']} {text}" for text in each["responses"]] for each in data]
    tally = judge_by_truth(nli.deberta, nli.deberta_tokenizer, data, " ")
    start = time.process_time()
    found = {"sample_texts": texts}
    found |= SemanticMatrixCalculator(nli)(found, texts, None)
    classes = SemanticClassesCalculator()(found, texts, None)["semantic_classes_entail"][
        "sample_to_class"
    ]
    labels = [[classes[i][place] for place in range(len(texts[i]))] for i in range(len(texts))]
    return {"seconds": time.process_time() - start, "labels": labels, **tally}


if __name__ == "__main__":
    torch.set_num_threads(1)
    folder = Path(sys.argv[2])
    data = json.loads((folder / "questions.json").read_text())
    print(json.dumps({"uqlm": uqlm, "lm-polygraph": polygraph}[sys.argv[1]](folder, data)))
