import math
from dataclasses import replace

import pytest

from coe_agents.clustering import NormalizedMatch
from coe_agents.evaluation import Samples
from coe_agents.evaluation.scoring.scores import ScoringSetup
from coe_agents.paper.algorithm_1 import divergences, epsilon, sampling
from coe_agents.paper.published import paper_rows
from coe_agents.paper.ranking import judge_group, model_accuracy, panels, selective_prediction
from tests.evaluation.invented import row, write

SETTING = ScoringSetup(NormalizedMatch())
LOG2 = math.log(2)
TWO = {  # a and b agree and are right; they are sure and disagree; a hesitates
    "q1": {"a": "right right", "b": "right right"},
    "q2": {"a": "x x", "b": "right right"},
    "q3": {"a": "right x", "b": "right right"},
}


def asked(folder, said, **fields):
    """Makes questions of {id: {agent: "answer answer ..."}}; "right" is right, and every field is a sample's."""
    rows = [
        row(
            identifier,
            agent,
            index,
            text,
            question=f"{identifier}?",
            references=["right"],
            **fields,
        )
        for identifier, agents in said.items()
        for agent, texts in agents.items()
        for index, text in enumerate(texts.split())
    ]
    with Samples([write(folder / "s.jsonl", rows)]) as samples:
        return list(samples)


def by_column(experiment, *keys):
    (row,) = [row for row in experiment.rows if row[: len(keys)] == keys]
    return dict(zip(experiment.columns, row, strict=True))


def test_model_accuracy(tmp_path):
    found = model_accuracy({"d": (None, asked(tmp_path, TWO))}, ["a", "b"], SETTING)
    # a ties in q3, where half of its answers are right
    assert by_column(found, "a", "d")["validation accuracy"] == pytest.approx((1 + 0 + 1 / 2) / 3)
    assert by_column(found, "a", "d")["ties validation"] == 1
    assert by_column(found, "b", "d")["validation accuracy"] == 1.0
    assert by_column(found, "b", "d")["train accuracy"] is None
    assert len(found.paper) == 6


def test_selective_prediction(tmp_path):
    found = selective_prediction(asked(tmp_path, TWO, p_false=0.5), ["a", "b"], SETTING)
    # q2 ties, and half of its answers are right. CoE: 0, log 2, H(3/4) = 0.562. The wrong half against the right
    # 1 + 1 + 1/2: above the first two, equal to its own half
    coe = by_column(found, 2, "CoE")
    assert coe["AUROC"] == pytest.approx((1 + 1 + 1 / 4) / 2.5)
    assert coe["100%"] == pytest.approx(2.5 / 3)
    assert coe["AURAC"] == pytest.approx((1 + 1 + 2.5 / 3) / 3)
    # SE: 0, 0, log 2 / 2: the wrong half ties with one right and its own half, and is surer than the other
    mean = by_column(found, 2, "Semantic Entropy")
    assert mean["AUROC"] == pytest.approx((1 / 2 + 1 / 4) / 2.5)
    assert mean["less CoE's"] == pytest.approx(-1.5 / 2.5)
    assert found.settings["2 models"] == "a + b, 3 questions, 1 tie"
    assert mean["AUROC"] == by_column(found, 2, "U_A")["AUROC"]
    assert by_column(found, 2, "P(False)")["AUROC"] == 0.5
    assert by_column(found, 2, "Regular Entropy")["AUROC"] is None
    assert {row[0] for row in found.rows} == {2}
    lines = found.lines()
    assert lines[0][:3] == (2, "Semantic Entropy", "here")
    assert lines[1][:3] == (2, "Semantic Entropy", "paper")


def test_panels(tmp_path):
    agents = {"a": "right x", "b": "right", "c": "x", "a (2)": "x", "b (2)": "x", "c (2)": "right"}
    questions = asked(tmp_path, {"q1": agents, "q2": {**agents, "c": "right"}})
    found = panels(
        "squad", "S", questions, ["a", "b", "c"], SETTING, twins=["a (2)", "b (2)", "c (2)"]
    )
    assert list(dict.fromkeys(row[0] for row in found.rows)) == [
        "a",
        "b",
        "c",
        "2 models",
        "3 models",
        "6 models",
    ]
    assert len(found.rows) == 6 * 9
    fewer = panels("squad", "S", questions, ["a", "b", "c"], SETTING)
    assert "6 models" not in {row[0] for row in fewer.rows}
    assert any("second instance" in note for note in fewer.notes)


def test_epsilon_and_divergences(tmp_path):
    questions = asked(tmp_path, TWO)
    found = epsilon(questions, ["a", "b"], SETTING)
    literal = by_column(found, "greedy", "1e-06")
    # q1 and q2 are certain from the start, and in q3 an agent's own tie stays one: nothing moves
    h = -0.75 * math.log(0.75) - 0.25 * math.log(0.25)
    assert literal["iterations"] == 1.0
    assert literal["final CoE"] == pytest.approx((LOG2 + h) / 3)
    assert literal["accuracy"] == pytest.approx((1 + 1 / 2 + 1) / 3)
    leaning = epsilon(
        asked(tmp_path, {"q": {"a": "right right x", "b": "right"}}), ["a", "b"], SETTING
    )
    assert (
        by_column(leaning, "softmax", "1e-08")["iterations"]
        > by_column(leaning, "softmax", "1e-04")["iterations"]
    )

    found = divergences(questions, ["a", "b"], SETTING)
    assert {
        by_column(found, "greedy", name)["gain"]
        for name in ("kl", "js", "hellinger", "wasserstein")
    } == {0.0}
    kl = by_column(found, "greedy", "kl")
    assert kl["CoE before"] == pytest.approx((LOG2 + h) / 3)
    assert kl["CoE after"] == pytest.approx((LOG2 + h) / 3)
    assert kl["CoE rose"] == 0.0


def test_sampling(tmp_path):
    questions = asked(tmp_path, {"q1": {"a": "right x x x x", "b": "right right right right x"}})
    found = sampling({0.9: questions}, questions, ["a", "b"], SETTING)
    assert [row[:2] for row in found.rows] == [
        ("temperature", 0.9),
        ("generations", 4),
        ("generations", 5),
    ]
    # of four: a (1/4, 3/4), b (1, 0), together 5/8 right; of five: (1/5, 4/5) and (4/5, 1/5), a tie
    assert by_column(found, "generations", 4)["accuracy before"] == 1.0
    assert by_column(found, "generations", 4)["U_A"] == pytest.approx(0.5623351 / 2)
    assert by_column(found, "generations", 5)["CoE"] == pytest.approx(LOG2)
    assert by_column(found, "generations", 4)["AUROC of CoE"] is None  # all right


def test_what_cannot_be_judged_is_left_out_and_nothing_left_is_an_error(tmp_path):
    questions = asked(tmp_path, {"q1": {"a": "x"}, "q2": {"a": "right"}})
    unknown = [questions[0].__class__("q0", "?", (), questions[0].responses, ()), questions[1]]
    found = judge_group(unknown, ["a"], SETTING)
    assert found.correct.tolist() == [True]
    with pytest.raises(ValueError, match="all of a, z responded"):
        judge_group(questions, ["a", "z"], SETTING)


def swapped(questions, names):
    return [
        replace(
            each,
            responses=tuple(
                said | {"agent": names[said["agent"]]} for said in reversed(each.responses)
            ),
        )
        for each in reversed(questions)
    ]


@pytest.mark.parametrize("experiment", [selective_prediction, divergences, epsilon])
def test_names_change_no_row_of_an_experiment(tmp_path, experiment):
    words = ["right right", "right x", "x x", "x y", "y right"]
    said = {
        f"q{i}{j}": {"a": words[i], "b": words[j], "c": words[(i + j) % 5]}
        for i in range(5)
        for j in range(5)
    }
    questions = asked(tmp_path, said, p_false=0.5)
    names = {"a": "c", "b": "a", "c": "b"}
    before = experiment(questions, ["a", "b", "c"], SETTING).rows
    after = experiment(
        swapped(questions, names)[::-1], [names[name] for name in "abc"], SETTING
    ).rows
    for one, other in zip(before, after, strict=True):
        assert one == pytest.approx(other, abs=1e-12)


def test_the_areas_follow_from_the_accuracies_with_two_columns_of_three_models_swapped():
    columns = ("models", "80%", "90%", "95%", "100%", "paper's AURAC", "metric", "AUROC")
    for models, a80, a90, a95, a100, area, *_ in paper_rows("selective-prediction", columns):
        ends = (a80, a95) if models == 2 else (a95, a80)
        # truncated there, not rounded
        assert area - 1e-9 <= 0.1 * (ends[0] / 2 + a90 + ends[1] + a100 / 2) < area + 0.00105, (
            models,
            area,
        )
