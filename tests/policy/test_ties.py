import random
from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coe_agents.measurement.measurement import Run, leading_cluster
from coe_agents.policy import RegimePolicy, ThresholdPolicy, measure
from coe_agents.testing import create_response
from tests.evaluation.test_renaming import flat
from tests.measurement.measurements import measured_texts as measured

TEXTS = ("Paris", "Lyon", "Nice", "It is Paris.", "paris")
CLUSTERS = {"Paris": "p", "It is Paris.": "p", "paris": "p", "Lyon": "l", "Nice": "n"}


def labels_of(responses):
    """The clusters' numbers by first appearance, which depend on the order of the responses."""
    numbers = {}
    return [numbers.setdefault(CLUSTERS[response["text"]], len(numbers)) for response in responses]


@st.composite
def groups(draw):
    """Responses of two to four agents, with log-probabilities or without, and their weights."""
    with_logs = draw(st.booleans())
    responses = []
    weights = {}
    for name in "abcd"[: draw(st.integers(2, 4))]:
        weights[name] = draw(st.sampled_from([1.0, 1.0, 2.0, 0.5]))
        texts = draw(st.lists(st.sampled_from(TEXTS), min_size=1, max_size=4))
        for index, text in enumerate(texts):
            logs = {}
            if with_logs:
                nats = draw(st.sampled_from([1, 1, 2, 3]))
                logs = {"logprob": -float(nats), "n_tokens": 1}
            responses.append(create_response(name, text, index=index, **logs))
    return responses, weights


def renamed(responses, weights, shuffle):
    """Other names, whose order is another, and the rows in any order; returns them with the old name of each."""
    names = sorted(weights)
    numbers = [f"{shuffle.random()}" for _ in names]
    shuffled = shuffle.sample(numbers, len(names))
    new_names = dict(zip(names, shuffled, strict=True))
    old_names = {new: name for name, new in new_names.items()}

    rows = [{**response, "agent": new_names[response["agent"]]} for response in responses]
    shuffle.shuffle(rows)
    new_weights = {new_names[name]: weight for name, weight in weights.items()}
    return rows, new_weights, old_names


def figures(measurement, names):
    found = asdict(replace(measurement, run=Run()))
    found["support"] = dict(zip(found.pop("representatives"), found["support"], strict=True))
    by_agent = [
        (found, "agents"),
        (found, "weights"),
        (found["proposals"], "by_agent"),
        (found["proposals"], "support"),
        (found["proposals"], "votes"),
    ]
    for part, field in by_agent:
        part[field] = {names[name]: value for name, value in part[field].items()}
    return found


def assert_equal(one, other):
    assert flat(one) == pytest.approx(flat(other), abs=1e-12)


@given(groups(), st.integers(0, 10**6), st.booleans())
def test_renaming_and_reordering_change_no_figure(group, seed, is_weighted):
    responses, weights = group
    old_names = {name: name for name in weights}
    rows, new_weights, names = renamed(responses, weights, random.Random(seed))
    if not is_weighted:
        weights = new_weights = None
    first = measure(responses, labels_of(responses), weights=weights)
    again = measure(rows, labels_of(rows), weights=new_weights)
    assert_equal(figures(first, old_names), figures(again, names))


BY_REGIME = {"conflict": "answer", "unknown": "escalate"}
OURS = [
    (ThresholdPolicy(float("inf"), otherwise="abstain"), "abstain"),
    (ThresholdPolicy(float("inf"), otherwise="escalate"), "escalate"),
    (RegimePolicy(0.5, 0.3, actions=BY_REGIME), "abstain"),
]


def test_only_trust_breaks_a_tie():
    tied = measured(a=["Paris"], b=["Lyon"])
    assert tied.tied == ("Lyon", "Paris")
    assert leading_cluster(tied) == 1
    assert tied.answer == "Lyon"  # by text
    assert tied.weights == {}
    assert leading_cluster(replace(tied, tied=())) == 0

    of_three = measured(a=["Paris", "Lyon"], b=["Lyon", "Nice"], c=["Nice", "Paris"])
    assert of_three.tied == ("Lyon", "Nice", "Paris")
    trusted = measured(a=["Paris"], b=["Lyon"], weights={"a": 0.6, "b": 0.4})
    assert trusted.tied == ()
    assert trusted.answer == "Paris"
    assert trusted.regime == "conflict"
    assert trusted.weights["a"] == 0.6

    for policy, action in OURS:
        decision = policy.decide(tied, round=0, max_rounds=1)
        assert decision.action == action
        assert decision.answer is None
        assert decision.reason.startswith("2 answers share the lead, and a tie is never answered; ")
        assert policy.decide(trusted, round=0, max_rounds=1).action == "answer"

    three = {"a": ["Paris"], "b": ["Lyon"], "c": ["Nice"]}
    one_leads = measured({"a": 0.3, "b": 0.3, "c": 0.4}, **three)
    assert one_leads.tied == ()
    two_lead = measured({"a": 0.4, "b": 0.4, "c": 0.2}, **three)
    assert two_lead.tied == ("Lyon", "Paris")
    # summed in another order, 0.1 + 0.2 differs from 0.3 in its last bit
    weights = {"a": 0.1, "b": 0.2, "c": 0.3}
    rounding = measured(weights, a=["Paris"], b=["Paris"], c=["Lyon"])
    assert rounding.tied == ("Lyon", "Paris")
