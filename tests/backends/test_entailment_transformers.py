import json
import shutil

import numpy as np
import pytest

from coe_agents.backends import ChatTransformers, TransformersEntailment
from coe_agents.clustering import EntailmentModel
from coe_agents.errors import LabelError, ModelLoadError
from coe_agents.tinyworld import ENTAILMENT_MODEL, model_folder

FOLDER = model_folder(ENTAILMENT_MODEL)
Q = "What is the capital of France?"
PAIRS = [
    (f"{Q} Paris", f"{Q} It is Paris."),
    (f"{Q} Paris", f"{Q} It is Lyon."),
    (f"{Q} I don't know.", f"{Q} Paris"),
]


def relabelled(tmp_path, labels):
    folder = shutil.copytree(FOLDER, tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    config["id2label"] = dict(enumerate(labels))
    config["label2id"] = {label: index for index, label in enumerate(labels)}
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


def test_rows_are_contradiction_neutral_entailment():
    model = TransformersEntailment(str(FOLDER))
    assert isinstance(model, EntailmentModel)
    rows = model.predict(PAIRS)
    assert (rows.shape, TransformersEntailment("no/such-model").predict([]).shape) == (
        (3, 3),
        (0, 3),
    )
    assert rows.sum(1) == pytest.approx(np.ones(3))
    assert rows.argmax(1).tolist() == [2, 0, 1]


def test_a_forward_pass_holds_no_more_pairs_and_tokens_than_allowed():
    pairs = [*PAIRS * 5, ("word " * 200, "x")]
    model = TransformersEntailment(str(FOLDER), batch_size=4, batch_tokens=70)
    shapes = []

    def note(_, __, given):
        shapes.append(tuple(given["input_ids"].shape))

    hook = model.load().model.register_forward_pre_hook(note, with_kwargs=True)
    rows = model.predict(pairs)
    hook.remove()
    (n_long, _), *short = shapes
    assert n_long == 1
    assert all(count <= 4 and count * tokens <= 70 for count, tokens in short)
    assert len(short) == 5  # four of 17 tokens at most, but three of 20 or 21
    assert rows == pytest.approx(TransformersEntailment(str(FOLDER)).predict(pairs), abs=1e-5)


def test_label_order_is_read_by_name_and_a_model_that_is_not_there_is_said(tmp_path):
    here = TransformersEntailment(str(FOLDER)).predict(PAIRS)
    there = TransformersEntailment(
        relabelled(tmp_path, ["Entailment", "NEUTRAL", "contradiction"])
    ).predict(PAIRS)
    assert there == pytest.approx(here[:, ::-1])
    with pytest.raises(ModelLoadError, match="cannot be loaded"):
        TransformersEntailment(str(tmp_path / "none")).load()


@pytest.mark.parametrize(
    "labels", [["LABEL_0", "LABEL_1", "LABEL_2"], ["entailment", "entailment", "neutral"]]
)
def test_labels_that_cannot_be_told_apart_are_refused_by_name(tmp_path, labels):
    with pytest.raises(LabelError, match=", ".join(labels)):
        TransformersEntailment(relabelled(tmp_path, labels)).predict(PAIRS)


def test_positions_that_an_architecture_never_uses_do_not_count(tmp_path):
    """RoBERTa of 40 positions starts at padding + 1 = 2, so 38 tokens are the most; a longer pair is cut."""
    from transformers import AutoTokenizer, RobertaConfig, RobertaForSequenceClassification

    labels = dict(enumerate(["contradiction", "neutral", "entailment"]))
    config = RobertaConfig(
        vocab_size=600, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=40, pad_token_id=1, id2label=labels, label2id={v: k for k, v in labels.items()},
    )  # fmt: skip
    RobertaForSequenceClassification(config).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(FOLDER).save_pretrained(tmp_path)
    model = TransformersEntailment(str(tmp_path))
    assert model.load().context_length == 38
    assert model.predict([("word " * 100, "x")]).shape == (1, 3)


def test_a_folder_may_be_a_path():
    pairs = [("It is Paris.", "Paris.")]
    by_path = TransformersEntailment(FOLDER).predict(pairs)
    assert np.array_equal(by_path, TransformersEntailment(str(FOLDER)).predict(pairs))
    assert ChatTransformers(model_folder("tiny-llama")).model == str(model_folder("tiny-llama"))
