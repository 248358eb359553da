import json
import math
from dataclasses import replace

import pytest

from coe_agents.actions import ActionMatch, canonical_action
from coe_agents.clustering import NormalizedMatch
from coe_agents.evaluation import Samples
from coe_agents.evaluation.scoring.scores import report, score
from coe_agents.evaluation.scoring.statistics import iter_statistics
from coe_agents.experiments.replays import load_saved
from coe_agents.measurement.estimators import find_estimators
from tests.evaluation.invented import group, row, write

ANN, BOB, NOBODY = (
    [{"name": "pay", "args": {"to": "Ann"}}],
    [{"name": "pay", "args": {"to": "Bob"}}],
    [],
)


def proposed(identifier, agent, calls, index=0, **fields):
    return row(identifier, agent, index, json.dumps(calls), calls=calls, **fields)


def scored(tmp_path, rows, clusterer=None, **options):
    with Samples([write(tmp_path / "s.jsonl", rows)]) as questions:
        return score(questions, clusterer=clusterer or NormalizedMatch(), **options)


@pytest.mark.parametrize(
    ("proposer", "expected"), [("a", 1 - (1 / 2 + 0) / 2), ("b", 1 - (2 / 3 + 0) / 2), ("c", 1.0)]
)
def test_support_by_hand(tmp_path, proposer, expected):
    # a says x x y, b says x y, c says z: a's first is x, as is b's, and c's is z
    said = [
        ("a", 0, "x"),
        ("a", 1, "x"),
        ("a", 2, "y"),
        ("b", 0, "x"),
        ("b", 1, "y"),
        ("c", 0, "z"),
    ]
    with Samples([write(tmp_path / "s.jsonl", [row("q", *each) for each in said])]) as questions:
        (found,) = iter_statistics(questions, clusterer=NormalizedMatch(), proposer=proposer)
    estimators = find_estimators({}, of_proposal=True)
    assert list(estimators)[:2] == ["support", "own_entropy"]
    assert estimators["support"](found) == pytest.approx(expected)
    own = {"a": -(2 / 3) * math.log(2 / 3) - (1 / 3) * math.log(1 / 3), "b": math.log(2), "c": 0.0}
    assert estimators["own_entropy"](found) == pytest.approx(own[proposer])
    assert not {"support", "own_entropy"} & find_estimators({}).keys()


def test_verdicts_are_of_the_proposal_and_a_tie_of_the_group_is_none_of_its_own(tmp_path):
    rows = [row("q", "a", text="x", references=["x"]), row("q", "b", text="y", references=["x"])]
    assert scored(tmp_path, rows).n_ties == 1
    for proposer, right in (("a", 1.0), ("b", 0.0)):
        found = scored(tmp_path, rows, proposer=proposer)
        assert (found.n_ties, found.correct.tolist()) == (0, [right])


def test_calls_and_no_calls_are_reported_apart(tmp_path):
    # where nothing should be called, both others call Ann all the same, and the proposal with the most support is wrong
    rows = []
    for i in range(8):
        right, mine = (ANN if i % 2 else NOBODY), (ANN if i % 4 else NOBODY)
        others = (ANN, ANN if i % 3 else BOB)
        for agent, calls in zip("abc", (mine, *others), strict=True):
            rows.append(proposed(f"q{i}", agent, calls, correct=calls == right))
    scores = scored(tmp_path, rows, ActionMatch(), proposer="a")
    assert scores.kinds == tuple("no_call" if i % 4 == 0 else "call" for i in range(8))
    found = report(scores, n_resamples=5)
    assert {kind: part["n_scored"] for kind, part in found["by_kind"].items()} == {
        "call": 6,
        "no_call": 2,
    }
    assert found["by_kind"]["call"]["accuracy"] == pytest.approx(4 / 6)
    assert found["by_kind"]["no_call"]["scores"]["support"]["auroc"] == [
        None,
        None,
        None,
    ]  # both are right
    # the kind of the group's answer where no proposal is judged
    assert set(scored(tmp_path, rows, ActionMatch()).kinds) == {"call"}
    assert set(scored(tmp_path, group(3)).kinds) == {None}


def test_to_call_nothing_may_be_right_whatever_is_said(tmp_path):
    rows = [
        row(f"q{i}", agent, text=text, calls=[], correct=True)
        for i, text in enumerate(["", "I'm sorry, but I can't help with that.", "Fine."])
        for agent in "ab"
    ]
    assert scored(tmp_path, rows, ActionMatch()).correct.tolist() == [1.0] * 3
    assert scored(tmp_path, rows, ActionMatch(), proposer="a").correct.tolist() == [1.0] * 3
    refused = [row("q", text="I'm sorry, but I can't help with that.", correct=True)]
    assert scored(tmp_path, refused, proposer="a").correct.tolist() == [0.0]


def test_calls_are_compared_whatever_the_answer_says_and_a_text_is_no_call(tmp_path):
    rows = [proposed("q", "a", ANN, answer="done"), proposed("q", "b", BOB, answer="done")]
    rows += [row("q", "c", 0, canonical_action(ANN))]
    with Samples([write(tmp_path / "s.jsonl", rows)]) as questions:
        (found,) = iter_statistics(questions, clusterer=NormalizedMatch())
        (saved,) = load_saved(questions, NormalizedMatch())
    assert len(set(found.labels.tolist())) == len(set(saved.labels)) == 3
    kinds = [replace(found, proposer=name).action_kind for name in (None, "a", "c", "z")]
    assert kinds == ["call", "call", None, None]
