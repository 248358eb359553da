import json
import math
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

from coe_agents import compare
from coe_agents.errors import SamplesError
from coe_agents.evaluation.origin import DECISIONS, read_run
from coe_agents.experiments.comparison import (
    PolicyOutcomes,
    compare_outcomes,
    outcomes_of,
    to_experiment,
)
from coe_agents.policy.bounds import price_of
from tests.experiments.decided import step, written

PRICES = {"a": {"input": 1.0, "output": 4.0}, "b": {"input": 1.0, "output": 4.0}}


@pytest.fixture
def four(tmp_path):
    """Answers three of four, two of these right; the last is withheld, and its leading answer was right."""
    rows = {
        "1": step(),
        "2": step(),
        "3": step(correct=0.0),
        "4": step(action="abstain", leading=1.0, rounds=2, tokens={"a": (20, 10), "b": (20, 10)}),
    }
    seconds = {"1": 1.0, "2": 2.0, "3": 3.0, "4": 6.0}
    return written(tmp_path / "four", rows, seconds=seconds, prices=PRICES)


def test_figures_by_hand(four):
    outcomes = outcomes_of(read_run(four))
    (found,) = compare_outcomes([outcomes], n_resamples=20).policies
    # an ordinary question costs 2 agents x (10 x 1 + 5 x 4) millionths; the last one twice that
    expected = {
        "coverage": 3 / 4,
        "risk": 1 / 3,
        "accuracy_answered": 2 / 3,
        "accuracy_all": 3 / 4,
        "rounds": 5 / 4,
        "tokens": (30 + 30 + 30 + 60) / 4,
        "requests": (2 + 2 + 2 + 4) / 4,
        "seconds": 3.0,
        "escalated": 0,
        "cost": 1000 * (3 * 60e-6 + 120e-6) / 4,
        "conformity": math.nan,
    }
    values = {name: found.figures[name][0] for name in expected}
    assert values == pytest.approx(expected, nan_ok=True)
    assert found.decided_by == {"group": 1.0}
    assert not found.differences


def test_a_difference_is_over_the_questions_of_both_and_of_a_run_to_itself_is_zero(tmp_path, four):
    rows = {"1": step(), "2": step(action="abstain"), "9": step(correct=0.0), "8": "down"}
    other = written(tmp_path / "other", rows)
    runs = [outcomes_of(read_run(path)) for path in (four, four, other)]
    _, same, found = compare_outcomes(runs, n_resamples=50).policies
    assert set(same.differences["coverage"]) == {0.0}

    assert found.n_questions == 3
    assert found.n_common == 2
    assert found.n_failed == 1
    coverage, *_ = found.differences["coverage"]
    risk, *_ = found.differences["risk"]
    cost, *_ = found.differences["cost"]
    assert coverage == 1 / 2 - 1
    assert risk == 0
    assert math.isnan(cost)
    assert any("1 question failed" in note for note in found.notes)


def test_an_agent_without_a_price_makes_the_cost_unknown():
    assert price_of([("a", 1, 1), ("c", 1, 0)], PRICES) is None
    assert price_of([("a", 1_000_000, 0), ("c", 0, 0)], PRICES) == 1.0
    assert price_of([("a", 1, 1)], {}) is None


def test_the_table_has_a_line_for_each_figure_of_each_policy(four, tmp_path):
    other = written(tmp_path / "other", {"1": step(by="arbiter"), "2": step()})
    runs = [outcomes_of(read_run(path)) for path in (four, other)]
    table = to_experiment(compare_outcomes(runs, n_resamples=5))
    found = {}
    for figure, policy, *values in table.rows:
        found[figure, policy] = dict(zip(table.columns[2:], values, strict=True))
    assert found["answered", "four"]["value"] == 0.75
    assert found["answered", "four"]["less the first"] is None
    assert found["answered", "other"]["less the first"] == 0.0
    assert found["questions", "four"]["value"] == 4
    assert found["questions of both", "other"]["value"] == 2
    assert found["decided by arbiter", "other"]["value"] == 0.5
    assert ("conformity", "four") not in found

    of_one = compare_outcomes([outcomes_of(read_run(four))], n_resamples=5)
    alone = to_experiment(of_one)
    assert alone.columns == ("figure", "policy", "value", "low", "high")


def _shown(comparison, width):
    out = StringIO()
    comparison.show(Console(file=out, width=width))
    return out.getvalue()


@pytest.mark.parametrize("n_policies", [1, 2, 3, 7])
def test_nothing_is_wider_than_the_terminal_and_each_figure_is_a_row(tmp_path, n_policies):
    runs = []
    for place in range(n_policies):
        rows = {str(i): step(tokens={"a": (10 ** min(place, 4), i)}) for i in range(20)}
        rows["0"] = step(action="abstain" if place % 2 else "answer")
        folder = written(tmp_path / f"policy-of-20-chars-{place}", rows)
        runs.append(outcomes_of(read_run(folder)))
    comparison = compare_outcomes(runs, n_resamples=100)

    text = _shown(comparison, 80)

    assert max(map(len, text.splitlines())) <= 80
    n_blocks = -(-n_policies // 3)
    assert text.count("\n  answered ") == n_blocks
    assert text.count("\n  figure ") == n_blocks
    are_several = n_policies > 1
    assert ("  less the first" in text) is are_several
    assert ("The same for all: questions 20" in text) is are_several
    if are_several:
        assert "\n  rounds " not in text


def test_policies_that_decide_alike_are_one_sentence(tmp_path):
    folders = [written(tmp_path / name, {"0": step()}) for name in ("one", "other")]
    comparison = compare_outcomes([outcomes_of(read_run(each)) for each in folders])

    text = _shown(comparison, 80)

    assert "The same for all: questions 1, " in text
    assert "figure" not in text


def test_a_figure_that_is_equal_in_the_mean_alone_keeps_its_row(tmp_path):
    odd = {}
    even = {}
    for number in range(20):
        abstains = step(action="abstain")
        answers = step(action="answer")
        odd[str(number)] = abstains if number % 2 else answers
        even[str(number)] = answers if number % 2 else abstains
    folders = [written(tmp_path / "odd", odd), written(tmp_path / "even", even)]
    comparison = compare_outcomes([outcomes_of(read_run(each)) for each in folders])
    words = " ".join(_shown(comparison, 80).split())
    assert "less the first +0.000 [-0.500, +0.500]" in words


@pytest.mark.parametrize("line", ['{"id": "1", "error": null}', "nothing"])
def test_a_line_that_is_no_decision_is_an_error_with_its_place(tmp_path, line):
    (tmp_path / DECISIONS).write_text(line + "\n")
    message = r"run\.decisions\.jsonl:1: this is not a decision of a run"
    with pytest.raises(SamplesError, match=message):
        read_run(tmp_path)
    with pytest.raises(SamplesError, match=r"holds no run\.decisions\.jsonl"):
        read_run(tmp_path / "none")


def test_two_decisions_on_one_question_are_an_error_unless_they_are_equal(tmp_path):
    folder = written(tmp_path / "r", {"1": step(), "2": step()})
    lines = (folder / DECISIONS).read_text()
    (folder / DECISIONS).write_text(lines + lines)
    assert list(read_run(folder).items) == ["1", "2"]
    changed = json.dumps({"id": "1", "agent": "group", "error": "down"})
    (folder / DECISIONS).write_text(f"{lines}{changed}\n")
    message = r"run\.decisions\.jsonl:3: line 1 holds another decision on '1'\. Remove"
    with pytest.raises(SamplesError, match=message):
        read_run(folder)


def test_a_share_of_none_or_of_all_has_the_interval_of_clopper_and_pearson(tmp_path):
    run = written(tmp_path / "r", {str(i): step() for i in range(20)})
    outcomes = outcomes_of(read_run(run))
    (found,) = compare_outcomes([outcomes], n_resamples=5).policies
    # the share p at which 20 of 20 happen with probability 0.025: p^20 = 0.025
    least = 0.025 ** (1 / 20)
    assert found.figures["coverage"] == pytest.approx((1.0, least, 1.0))
    assert found.figures["risk"] == pytest.approx((0.0, 0.0, 1.0 - least))
    assert found.figures["rounds"] == (1.0, 1.0, 1.0)  # no share


def test_the_intervals_of_differences_allow_for_the_number_of_policies(tmp_path):
    folder = written(tmp_path / "r", {"yes": step(), "no": step(action="abstain")})
    items = read_run(folder).items
    generator = np.random.default_rng(1)
    runs = []
    for row in generator.random((6, 400)) < 0.5:
        steps = {}
        for place, is_answered in enumerate(row):
            steps[str(place)] = items["yes"] if is_answered else items["no"]
        runs.append(PolicyOutcomes("p", steps))

    def width(n_policies: int) -> float:
        comparison = compare_outcomes(runs[:n_policies], n_resamples=4000)
        _, second, *_ = comparison.policies
        _, low, high = second.differences["coverage"]
        return high - low

    # of a normal distribution: the 99.5 % quantile for five differences, the 97.5 % one for a single one
    assert width(6) / width(2) == pytest.approx(2.576 / 1.960, rel=0.05)


def test_what_is_compared_is_said_where_it_is_something_else():
    with pytest.raises(ValueError, match='"runs" must be runs, or their folders'):
        compare([1])
    with pytest.raises(TypeError, match='"policies" must be a mapping of names; got list'):
        compare("samples.jsonl", policies=[1])
