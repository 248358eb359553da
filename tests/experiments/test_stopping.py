import json

import pytest

from coe_agents.evaluation.calibration import learn_stopping, trajectories_of
from coe_agents.evaluation.decisions import read_run
from coe_agents.experiments import compare_stopping
from tests.experiments.decided import mixed, went_on, written


@pytest.fixture(scope="module")
def trajectories(tmp_path_factory):
    return trajectories_of(read_run(written(tmp_path_factory.mktemp("runs") / "run", mixed())))


@pytest.fixture(scope="module")
def found(trajectories):
    return compare_stopping(trajectories, max_coe=0.5, price=0.02, n_resamples=50)


def figures(found, name):
    return {each.name: each.figures[name][0] for each in found.comparison.policies}


def test_rules_are_replayed_on_the_same_trajectories(found):
    assert list(figures(found, "rounds")) == ["CoE > 0.5", "never", "always", "learned"]
    # 40 questions in consensus, 36 right; 40 in conflict, 10 right at first, 30 after a round of 20 tokens more
    assert figures(found, "accuracy_all") == pytest.approx(
        {"CoE > 0.5": 66 / 80, "never": 46 / 80, "always": 66 / 80, "learned": 66 / 80}
    )
    assert figures(found, "rounds") == {"CoE > 0.5": 1.5, "never": 1.0, "always": 2.0, "learned": 1.5}
    assert figures(found, "tokens") == {"CoE > 0.5": 20.0, "never": 10.0, "always": 30.0, "learned": 20.0}
    assert figures(found, "requests") == {"CoE > 0.5": 3.0, "never": 2.0, "always": 4.0, "learned": 3.0}


def test_the_net_is_the_accuracy_less_the_price_of_further_rounds(found):
    own, difference = found.net["always"]
    assert own[0] == pytest.approx(66 / 80 - 0.02)
    assert difference[0] == pytest.approx(-0.01)
    assert found.net["never"][1][0] == pytest.approx(46 / 80 - (66 / 80 - 0.01))
    assert found.net["learned"][1] == (0.0, 0.0, 0.0)


def test_what_a_round_did_is_shown_by_what_was_known_before_it(found):
    gains = {each.of: each for each in found.gains}
    assert list(gains) == ["consensus", "conflict", "after round 1"]
    assert (gains["conflict"].n, gains["conflict"].before, gains["conflict"].after) == (40, 0.25, 0.75)
    assert gains["conflict"].gain[0] == 0.5
    assert (gains["conflict"].asked, gains["consensus"].asked) == (40, 0)


def test_falls_and_conformity_are_told_apart_after_the_first_round(tmp_path):
    rows = {
        str(i): went_on(
            (0.1, 0.2, i % 3 > 0), (0.1, 0.1 if i % 2 else 0.2, i % 3 > 0), (0.1, 0.1, True), adopted={"a": i < 4}
        )
        for i in range(12)
    }
    found = compare_stopping(trajectories_of(read_run(written(tmp_path / "run", rows))), max_coe=0.5, n_resamples=10)
    counts = {each.of: each.n for each in found.gains}
    assert (counts["after round 1"], counts["after round 2"], counts["consensus"]) == (12, 12, 24)
    assert (counts["epistemic part fell"], counts["epistemic part did not fall"]) == (6, 6)
    assert (counts["conformity above 0"], counts["conformity 0, or no debate"]) == (4, 8)


def test_a_tie_goes_on_under_the_threshold_and_is_not_answered(tmp_path):
    rows = mixed(8)
    for row in rows.values():
        row["decision"]["trajectory"][0]["led"] = ["Lyon", "Paris"]
    found = compare_stopping(trajectories_of(read_run(written(tmp_path / "run", rows))), max_coe=0.5, n_resamples=10)
    assert figures(found, "rounds")["CoE > 0.5"] == 2.0
    assert figures(found, "coverage")["never"] == 0.0
    assert figures(found, "coverage")["always"] == 0.5  # CoE of those in conflict is 0.7


def test_no_question_is_judged_by_a_rule_that_was_learned_on_it(trajectories, monkeypatch):
    seen = []

    def noting(rounds, **options):
        seen.append({id(each) for each in rounds})
        return learn_stopping(rounds, **options)

    monkeypatch.setattr("coe_agents.experiments.stopping.learn_stopping", noting)
    compare_stopping(trajectories, max_coe=0.5, n_resamples=10)
    whole, *folds = seen
    assert len(whole) == 80
    assert len(folds) == 5
    left_out = [whole - fold for fold in folds]
    assert sum(map(len, left_out)) == 80
    assert set.union(*left_out) == whole


def test_a_rule_of_other_questions_is_judged_as_it_is(trajectories, found):
    other = compare_stopping(trajectories, max_coe=0.5, rule=found.rule, n_resamples=10)
    assert other.is_held_out
    assert other.rule is found.rule
    assert "learned on 80 other questions." in other.in_words()[-1]
    with pytest.raises(ValueError, match="the divergence and the regimes of the trajectories"):
        compare_stopping(
            trajectories, max_coe=0.5, rule=learn_stopping(list(trajectories.rounds.values()), divergence="js")
        )


def test_in_words_and_as_json(found):
    first, never, _, learned, how = found.in_words()
    assert first == "CoE > 0.5: right in 82.5%, 1.50 rounds and 20 tokens a question."
    assert never.startswith("never: right in 57.5%, 1.00 rounds and 10 tokens a question. Net of 0.02 for each further")
    assert "points [" in never
    assert never.endswith("from CoE > 0.5, beyond chance.")
    assert learned.endswith("+0.0 points [+0.0, +0.0] from CoE > 0.5, within chance.")
    assert how == "The learned rule is judged in 5 folds, each by a rule learned on the other questions."
    said = json.loads(json.dumps(found.to_json()))
    assert said["price"] == 0.02
    assert said["net"]["learned"]["difference"] == [0.0, 0.0, 0.0]
    assert [each["of"] for each in said["gains"]] == ["consensus", "conflict", "after round 1"]
