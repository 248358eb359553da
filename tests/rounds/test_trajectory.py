import pytest

from coe_agents.rounds.trajectory import conformity, former_answers, leading_answers, round_data
from tests.measurement.measurements import measured_texts as measured


def account(measurement, *, former=None, labels=None, shows_answers=True):
    return round_data(
        measurement,
        round=0 if former is None else former["round"] + 1,
        strategy=None if former is None else "debate",
        shows_answers=former is not None and shows_answers,
        former=former,
        former_labels=labels or {},
        tokens=7,
        n_responses=3,
    )


def test_the_first_round_has_nothing_to_compare_and_one_without_a_measurement_is_accounted_for():
    data = account(measured(a=["Paris", "Paris", "Lyon"], b=["Lyon"]))
    assert data["leading"] == {"a": "Paris", "b": "Lyon"}
    assert data["answer"] == "Lyon"
    assert data["flips"] == {}
    assert data["adopted"] == {}
    assert data["tokens"] == 7
    assert data["n_responses"] == 3
    assert data["strategy"] is None
    assert data["led"] == ["Lyon"]
    assert former_answers(data) == ["Lyon", "Paris"]
    assert former_answers(None) == []
    assert conformity([data]) is None
    lost = account(None, former=data)
    assert lost["coe"] is None
    assert lost["regime"] is None
    assert lost["answer"] is None
    assert lost["leading"] == {}
    assert former_answers(lost) == []


def test_an_agents_own_tie_goes_to_what_the_group_supports_and_then_by_text():
    for torn in (["Paris", "Lyon"], ["Lyon", "Paris"]):
        assert leading_answers(measured(a=torn)) == {"a": "Lyon"}
        assert leading_answers(measured(a=torn, b=["Paris"])) == {"a": "Paris", "b": "Paris"}
        assert leading_answers(measured(b=["Nice", "Paris"], a=torn)) == {
            "b": "Paris",
            "a": "Paris",
        }


def test_a_change_of_words_is_no_change_of_mind():
    first = account(measured(a=["Paris"], b=["Paris"]))
    # "It is Paris." opens cluster 0 now, and the clusterer put the former "Paris" into it
    second = account(measured(a=["It is Paris."], b=["Lyon"]), former=first, labels={"Paris": 0})
    assert second["flips"] == {"a": False, "b": True}
    assert second["adopted"] == {"a": False, "b": False}


def test_giving_way_is_changing_towards_what_led():
    # Paris leads with (1 + 1 + 0 + 0) / 4; c changes to it, d to something new
    first = account(measured(a=["Paris"], b=["Paris"], c=["Lyon"], d=["Nice"]))
    second = account(
        measured(a=["Paris"], b=["Paris"], c=["Paris"], d=["Metz"]),
        former=first,
        labels={"Paris": 0, "Lyon": 2, "Nice": 3},
    )
    assert second["flips"] == {"a": False, "b": False, "c": True, "d": True}
    assert second["adopted"] == {"a": False, "b": False, "c": True, "d": False}
    assert conformity([first, second]) == pytest.approx(1 / 4)
