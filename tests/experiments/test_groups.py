from dataclasses import replace

import pytest

from coe_agents.clustering import NormalizedMatch
from coe_agents.evaluation.scoring.scores import ScoringSetup
from coe_agents.experiments.algorithm_1 import divergences, epsilon
from coe_agents.experiments.ranking import judge_group, selective_prediction

SETTING = ScoringSetup(NormalizedMatch())


def test_what_cannot_be_judged_is_left_out_and_nothing_left_is_an_error(asked):
    questions = asked({"q1": {"a": "x"}, "q2": {"a": "right"}})
    unknown = [questions[0].__class__("q0", "?", (), questions[0].responses, ()), questions[1]]
    found = judge_group(unknown, ["a"], SETTING)
    assert found.correct.tolist() == [True]
    with pytest.raises(ValueError, match="all of a, z responded"):
        judge_group(questions, ["a", "z"], SETTING)


def swapped(questions, names):
    return [
        replace(each, responses=tuple(said | {"agent": names[said["agent"]]} for said in reversed(each.responses)))
        for each in reversed(questions)
    ]


@pytest.mark.parametrize("experiment", [selective_prediction, divergences, epsilon])
def test_names_change_no_row_of_an_experiment(asked, experiment):
    words = ["right right", "right x", "x x", "x y", "y right"]
    said = {f"q{i}{j}": {"a": words[i], "b": words[j], "c": words[(i + j) % 5]} for i in range(5) for j in range(5)}
    questions = asked(said, p_false=0.5)
    names = {"a": "c", "b": "a", "c": "b"}
    before = experiment(questions, ["a", "b", "c"], SETTING).rows
    after = experiment(swapped(questions, names)[::-1], [names[name] for name in "abc"], SETTING).rows
    for one, other in zip(before, after, strict=True):
        assert one == pytest.approx(other, abs=1e-12)
