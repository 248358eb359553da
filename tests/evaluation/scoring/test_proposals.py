import json
import math
from dataclasses import replace

import pytest

from coe_agents.actions import ActionMatch, canonical_action
from coe_agents.clustering import NormalizedMatch
from coe_agents.evaluation import Samples
from coe_agents.evaluation.scoring.scores import report
from coe_agents.evaluation.scoring.statistics import iter_statistics
from coe_agents.experiments.replays import load_saved
from coe_agents.measurement.estimators import find_estimators
from tests.evaluation.invented import group, row, score, write

ANN = [{"name": "pay", "args": {"to": "Ann"}}]
BOB = [{"name": "pay", "args": {"to": "Bob"}}]
NOBODY = []


def proposed(identifier, agent, calls, index=0, **fields):
    return row(identifier, agent, index, json.dumps(calls), calls=calls, **fields)


def scored(tmp_path, rows, clusterer=None, **options):
    file = write(tmp_path / "s.jsonl", rows)
    with Samples([file]) as questions:
        return score(questions, clusterer=clusterer or NormalizedMatch(), **options)


@pytest.mark.parametrize(
    ("proposer", "expected"), [("a", 1 - (1 / 2 + 0) / 2), ("b", 1 - (2 / 3 + 0) / 2), ("c", 1.0)]
)
def test_support_by_hand(tmp_path, proposer, expected):
    # a says x x y, b says x y, c says z: a's first is x, as is b's, and c's is z
    rows = [
        row("q", "a", 0, "x"),
        row("q", "a", 1, "x"),
        row("q", "a", 2, "y"),
        row("q", "b", 0, "x"),
        row("q", "b", 1, "y"),
        row("q", "c", 0, "z"),
    ]
    with Samples([write(tmp_path / "s.jsonl", rows)]) as questions:
        [statistics] = iter_statistics(questions, clusterer=NormalizedMatch(), proposer=proposer)

    estimators = find_estimators({}, of_proposal=True)
    assert list(estimators)[:2] == ["support", "own_entropy"]
    assert estimators["support"](statistics) == pytest.approx(expected)
    own_entropy = {
        "a": -(2 / 3) * math.log(2 / 3) - (1 / 3) * math.log(1 / 3),
        "b": math.log(2),
        "c": 0.0,
    }
    assert estimators["own_entropy"](statistics) == pytest.approx(own_entropy[proposer])

    of_answers = find_estimators({})
    assert not {"support", "own_entropy"} & of_answers.keys()


def test_verdicts_are_of_the_proposal_and_a_tie_of_the_group_is_none_of_its_own(tmp_path):
    rows = [row("q", "a", text="x", references=["x"]), row("q", "b", text="y", references=["x"])]
    assert scored(tmp_path, rows).n_ties == 1

    for proposer, right in (("a", 1.0), ("b", 0.0)):
        scores = scored(tmp_path, rows, proposer=proposer)
        assert scores.n_ties == 0
        assert scores.correct.tolist() == [right]


def test_calls_and_no_calls_are_reported_apart(tmp_path):
    # where nothing should be called, both others call Ann all the same, and the proposal with the most support is wrong
    rows = []
    for i in range(8):
        right = ANN if i % 2 else NOBODY
        by_agent = {"a": ANN if i % 4 else NOBODY, "b": ANN, "c": ANN if i % 3 else BOB}
        for agent, calls in by_agent.items():
            rows.append(proposed(f"q{i}", agent, calls, correct=calls == right))

    scores = scored(tmp_path, rows, ActionMatch(), proposer="a")
    expected_kinds = ["no_call" if i % 4 == 0 else "call" for i in range(8)]
    assert list(scores.kinds) == expected_kinds

    by_kind = report(scores, n_resamples=5)["by_kind"]
    assert set(by_kind) == {"call", "no_call"}
    assert by_kind["call"]["n_scored"] == 6
    assert by_kind["no_call"]["n_scored"] == 2
    assert by_kind["call"]["accuracy"] == pytest.approx(4 / 6)
    both_are_right = [None, None, None]
    assert by_kind["no_call"]["scores"]["support"]["auroc"] == both_are_right

    # the kind of the group's answer where no proposal is judged
    of_group = scored(tmp_path, rows, ActionMatch())
    assert set(of_group.kinds) == {"call"}
    of_texts = scored(tmp_path, group(3))
    assert set(of_texts.kinds) == {None}


DECLINES = "I'm sorry, but I can't help with that."


def test_to_call_nothing_may_be_right_whatever_is_said(tmp_path):
    rows = []
    for i, text in enumerate(["", DECLINES, "Fine."]):
        for agent in "ab":
            rows.append(row(f"q{i}", agent, text=text, calls=[], correct=True))
    of_group = scored(tmp_path, rows, ActionMatch())
    assert of_group.correct.tolist() == [1.0] * 3
    of_proposals = scored(tmp_path, rows, ActionMatch(), proposer="a")
    assert of_proposals.correct.tolist() == [1.0] * 3

    # without calls, the same text is a refusal
    refused = [row("q", text=DECLINES, correct=True)]
    scores = scored(tmp_path, refused, proposer="a")
    assert scores.correct.tolist() == [0.0]


def test_calls_are_compared_whatever_the_answer_says_and_a_text_is_no_call(tmp_path):
    rows = [
        proposed("q", "a", ANN, answer="done"),
        proposed("q", "b", BOB, answer="done"),
        row("q", "c", 0, canonical_action(ANN)),
    ]
    with Samples([write(tmp_path / "s.jsonl", rows)]) as questions:
        [statistics] = iter_statistics(questions, clusterer=NormalizedMatch())
        [saved] = load_saved(questions, NormalizedMatch())
    assert len(set(statistics.labels.tolist())) == 3
    assert len(set(saved.labels)) == 3

    kind_by_proposer = {
        name: replace(statistics, proposer=name).action_kind for name in (None, "a", "c", "z")
    }
    assert kind_by_proposer == {None: "call", "a": "call", "c": None, "z": None}
