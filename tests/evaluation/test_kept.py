import sqlite3
import warnings
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from coe_agents.agents import ChatEntailment
from coe_agents.evaluation.kept import KEPT, Kept, path_of_kept
from coe_agents.evaluation.samples.store import SETTINGS
from coe_agents.evaluation.scoring.correctness import Prediction, Rule
from coe_agents.testing.doubles import TableEntailment
from tests.doubles import JudgingModel

PAIRS = [("a", "b"), ("b", "a"), ("a", "b")]
NEUTRAL = [0.1, 0.8, 0.1]


@pytest.fixture
def kept(tmp_path):
    return Kept(tmp_path / KEPT, "m", lambda: TableEntailment({}))


def asked(kept, pairs=PAIRS):
    """Returns which pairs the model is asked for."""
    model = TableEntailment({})
    rows = replace(kept, create=lambda: model).predict(pairs)
    assert rows.tolist() == [NEUTRAL] * len(pairs)
    return [pair for call in model.calls for pair in call]


def test_a_model_is_asked_once_for_each_pair(kept):
    assert asked(kept) == PAIRS[:2]
    assert asked(kept) == []
    assert asked(kept, [("b", "a"), ("c", "a")]) == [("c", "a")]
    assert asked(replace(kept, identity="another")) == PAIRS[:2]


def test_a_pair_without_a_verdict_is_not_kept(kept):
    asked = []

    def verdict(premise, hypothesis):
        asked.append(premise)
        return "Hmm" if premise == "b" else "neutral"

    judge = ChatEntailment(JudgingModel(verdict))
    for _ in range(2):
        replace(kept, create=lambda: judge).predict(PAIRS)
    assert sorted(asked) == ["a", "b", "b"]


def test_a_value_that_is_damaged_is_asked_for_again(kept):
    asked(kept)
    content = kept.path.read_bytes()
    neutral = np.array(NEUTRAL).tobytes()
    assert content.count(neutral) == 2
    kept.path.write_bytes(content.replace(neutral, np.array([0.1, 0.1, 0.8]).tobytes(), 1))
    assert len(asked(kept)) == 1
    assert asked(kept) == []


@pytest.mark.parametrize("value", ["a text", 2, 2**60, None])
def test_a_value_of_another_type_is_asked_for_again(kept, value):
    asked(kept)
    with closing(sqlite3.connect(kept.path)) as database, database:
        database.execute("UPDATE kept SET value = ?", [value])
    assert len(asked(kept)) == 2
    assert asked(kept) == []


@pytest.mark.parametrize("content", [b"not a database " * 500, b""], ids=["foreign", "empty"])
def test_a_file_that_is_no_database_is_told_and_written_anew(kept, content):
    kept.path.write_bytes(content)
    with warnings.catch_warnings(record=True, action="always") as caught:
        assert asked(kept) == PAIRS[:2]
        assert asked(kept) == []
    assert [KEPT in str(each.message) for each in caught] == [True] * bool(content)


def test_where_no_file_can_be_written_nothing_is_kept(kept):
    nowhere = replace(kept, path=kept.path / "in no folder")
    assert asked(nowhere) == asked(nowhere) == PAIRS[:2]


def test_vectors_are_kept(kept):
    texts = []

    class Lengths:
        def embed_documents(self, new):
            texts.extend(new)
            return [[1.0, len(text)] for text in new]

    kept = replace(kept, create=Lengths)
    for _ in range(2):
        assert kept.embed_documents(["x", "yy"]).tolist() == [[1.0, 1.0], [1.0, 2.0]]
    assert texts == ["x", "yy"]


def test_verdicts_are_kept_but_none_that_is_not_known(kept):
    verdicts = {"x": 1.0, "y": 0.5, "z": None}
    predictions = [Prediction("Which?", answer, ("x",), (True,)) for answer in verdicts]
    judged = []
    rule = Rule("judge", lambda each: judged.append(each) or verdicts[each.answer])
    kept = replace(kept, create=lambda: rule)
    for _ in range(2):
        assert kept.judge(predictions) == [1.0, 0.5, None]
    assert judged == [*predictions, predictions[2]]


def test_no_link_is_written_through(tmp_path):
    (tmp_path / SETTINGS).write_text("{}")
    assert path_of_kept([tmp_path]) == tmp_path / KEPT
    (tmp_path / KEPT).symlink_to(tmp_path / "elsewhere")
    assert path_of_kept([tmp_path]) is None
