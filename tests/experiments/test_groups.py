import math

import numpy as np
import pytest

from coe_agents.clustering import NormalizedMatch
from coe_agents.experiments.groups import Setting, judged, of_agents

SETTING = Setting(NormalizedMatch())


def test_only_the_named_agents_count_and_only_where_all_responded(asked):
    questions = asked({"q1": {"a": "right x", "b": "right right", "c": "x"}, "q2": {"a": "x"}})
    kept = of_agents(questions, ["b", "a"])
    assert [question.id for question in kept] == ["q1"]
    assert [response["agent"] for response in kept[0].responses] == ["b", "b", "a", "a"]
    assert [response["index"] for response in of_agents(questions, ["a"], n_samples=1)[0].responses] == [0]


def test_a_group_is_clustered_and_judged_as_if_nobody_else_was_asked(asked):
    questions = asked({"q1": {"a": "right right", "b": "x x", "c": "x x"}, "q2": {"a": "x x", "b": "right x"}})
    alone, both = judged(questions, ["a"], SETTING), judged(questions, ["a", "b"], SETTING)
    assert alone.correct.tolist() == [True, False]
    assert alone.values("coe").tolist() == [0.0, 0.0]
    assert both.values("epistemic")[0] == pytest.approx(math.log(2))  # each sure, of different answers
    assert judged(questions, ["a", "c"], SETTING).n_left_out == 1


def test_what_cannot_be_judged_is_left_out_and_counted_and_nothing_left_is_an_error(asked):
    questions = asked({"q1": {"a": "x"}, "q2": {"a": "right"}})
    unknown = [questions[0].__class__("q0", "?", (), questions[0].responses, ()), questions[1]]
    found = judged(unknown, ["a"], SETTING)
    assert (found.correct.tolist(), found.n_left_out) == ([True], 1)
    with pytest.raises(ValueError, match="all of a, z responded"):
        judged(questions, ["a", "z"], SETTING)


def test_a_score_that_a_question_lacks_is_none(asked):
    with_numbers = judged(asked({"q1": {"a": "right"}}, p_false=0.25), ["a"], SETTING)
    assert np.array_equal(with_numbers.values("p_false"), [0.25])
    assert judged(asked({"q1": {"a": "right"}}), ["a"], SETTING).values("p_false") is None
