import os
import sqlite3
import warnings
from dataclasses import replace

import numpy as np
import pytest

from coe_agents.evaluation.kept import KEPT, Kept, KeptEmbeddings, KeptEntailment, KeptVerdicts
from coe_agents.evaluation.scoring.correctness import Prediction, Rule
from coe_agents.testing.doubles import TableEntailment

PAIRS = [("a", "b"), ("b", "a"), ("a", "b")]
NEUTRAL = [0.1, 0.8, 0.1]


@pytest.fixture
def kept(tmp_path):
    return Kept(tmp_path / KEPT, "m")


def asked(kept, pairs=PAIRS):
    """Returns which pairs the model is asked for."""
    model = TableEntailment({})
    rows = KeptEntailment(lambda: model, kept).predict(pairs)
    assert rows.tolist() == [NEUTRAL] * len(pairs)
    return [pair for call in model.calls for pair in call]


def test_a_model_is_asked_once_for_each_pair(kept):
    assert asked(kept) == PAIRS[:2]
    assert asked(kept) == []
    assert asked(kept, [("b", "a"), ("c", "a")]) == [("c", "a")]
    assert asked(replace(kept, model="another")) == PAIRS[:2]


@pytest.mark.parametrize(
    "value",
    [b"1234567", "a text", np.array([0.1, 0.9]), np.array([0.1, np.nan, 0.1]), np.ones(3)],
    ids=["bytes", "text", "too few", "NaN", "a sum of 3"],
)
def test_what_the_model_cannot_have_said_is_asked_again(kept, value):
    asked(kept)
    with sqlite3.connect(kept.path) as database:
        value = value.tobytes() if isinstance(value, np.ndarray) else value
        database.execute("UPDATE kept SET value = ?", [value])
    database.close()
    assert asked(kept) == PAIRS[:2]
    assert asked(kept) == []


def another(path):
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE kept (key, value, more)")
    database.close()


@pytest.mark.parametrize(
    "write",
    [
        lambda path: path.write_bytes(b"no database, but long enough to be read as one" * 50),
        lambda path: path.write_bytes(path.read_bytes()[:4096] + os.urandom(4096)),
        another,
    ],
    ids=["no database", "damaged", "of another program"],
)
def test_a_file_that_is_not_ours_is_told_and_written_anew(kept, write):
    asked(kept)
    if write is another:
        kept.path.unlink()
    write(kept.path)
    with pytest.warns(UserWarning, match=f"{KEPT} is written anew") as caught:
        assert asked(kept) == PAIRS[:2]
    assert len(caught) == 1
    with warnings.catch_warnings(action="error"):
        assert asked(kept) == []


def test_where_no_file_can_be_written_nothing_is_kept(kept):
    nowhere = replace(kept, path=kept.path / "in no folder")
    assert asked(nowhere) == asked(nowhere) == PAIRS[:2]


def test_vectors_and_verdicts_are_kept_but_no_verdict_that_is_not_known(kept):
    texts, calls = ["x", "yy"], []

    class Lengths:
        def embed_documents(self, texts):
            calls.extend(texts)
            return [[1.0, len(text)] for text in texts]

    embeddings = KeptEmbeddings(Lengths, kept)
    for _ in range(2):
        assert embeddings.embed_documents(texts).tolist() == [[1.0, 1.0], [1.0, 2.0]]
    assert calls == texts

    predictions = [Prediction("Which?", answer, ("x",), (True,)) for answer in ("x", "y", "z")]
    verdicts = {"x": 1.0, "y": 0.5, "z": None}
    counted = []
    rule = Rule("judge", lambda each: counted.append(each) or verdicts[each.answer])
    criterion = KeptVerdicts(rule, kept)
    for _ in range(2):
        assert criterion.judge(predictions) == [1.0, 0.5, None]
    assert counted == [*predictions, predictions[2]]
    assert criterion.name == "judge"
