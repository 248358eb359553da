import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coe_agents import create_coe_graph
from coe_agents.clustering import NormalizedMatch
from coe_agents.errors import ConfigurationError
from coe_agents.policy import (
    STOPPING_FEATURES,
    CalibratedPolicy,
    CascadePolicy,
    Decision,
    Policy,
    RegimePolicy,
    StoppingPolicy,
    StoppingRule,
    ThresholdPolicy,
    TunablePolicy,
    measure,
    stopping_features,
)
from coe_agents.policy.base import RegimeThresholds
from coe_agents.testing import ScriptedAgent, create_response
from tests.policy.test_calibrated import CALIBRATION

NONE = (0.0,) * len(STOPPING_FEATURES)
AFTER = {"aleatoric": 0.4, "epistemic": 0.25, "conformity": None, "regime": "consensus"}


def rule(**changes):
    whole = {"now": NONE, "now_intercept": 0.0, "after": NONE, "after_intercept": 0.0, "price": 0.01}
    return StoppingRule(**{**whole, "n_rounds": 3, "n_questions": 50, **changes})


def on(**coefficients):
    return tuple(coefficients.get(name, 0.0) for name in STOPPING_FEATURES)


def measured(*said, **changes):
    rows = [create_response(name, text, index=i) for name, texts in said for i, text in enumerate(texts)]
    texts = list(dict.fromkeys(row["text"] for row in rows))
    return measure(rows, [texts.index(row["text"]) for row in rows], **changes)


SPLIT = measured(("a", ["Paris", "Paris"]), ("b", ["Lyon", "Lyon"]), ("c", ["Paris", "Paris"]))
AGREED = measured(("a", ["Paris", "Paris"]), ("b", ["Paris", "Paris"]))


def decide(policy, measurement, round=0, max_rounds=3):
    return policy.decide(measurement, round=round, max_rounds=max_rounds)


def test_the_features_are_what_is_known_after_the_round():
    found = stopping_features(
        round=1, aleatoric=0.4, epistemic=0.25, former_epistemic=0.5, conformity=0.5, regime="ambiguous"
    )
    assert dict(zip(STOPPING_FEATURES, found.tolist(), strict=True)) == {
        "round": 1.0,
        "aleatoric": 0.4,
        "epistemic": 0.25,
        "fall": 0.25,
        "conformity": 0.5,
        "conflict": 0.0,
        "ambiguous": 1.0,
        "unknown": 0.0,
    }


def test_the_first_round_has_no_fall_and_consensus_has_no_indicator():
    assert stopping_features(round=0, former_epistemic=None, **AFTER).tolist() == [0, 0.4, 0.25, 0, 0, 0, 0, 0]


def test_the_gain_is_the_difference_of_two_probabilities():
    # P(now) = 1 / (1 + e^-(1 - 4 x 0.25)) = 1 / 2, P(after) = 1 / (1 + e^-log 3) = 3 / 4
    learned = rule(now=on(epistemic=-4.0), now_intercept=1.0, after_intercept=math.log(3))
    found = stopping_features(round=0, former_epistemic=None, **AFTER)
    assert learned.chances(found) == pytest.approx((0.5, 0.75))
    assert learned.pays(found)
    assert not rule(now=on(epistemic=-4.0), now_intercept=1.0, after_intercept=math.log(3), price=0.26).pays(found)


def test_a_gain_of_the_price_itself_does_not_pay():
    assert not rule(price=0.0).pays(stopping_features(round=0, former_epistemic=None, **AFTER))


def test_rounds_beyond_those_that_were_seen_count_as_the_last_one_with_a_further_round():
    learned = rule(now=on(round=1.0))
    chances = [learned.chances(stopping_features(round=n, former_epistemic=None, **AFTER))[0] for n in range(4)]
    assert chances[1] == chances[2] == chances[3] > chances[0]


@given(st.lists(st.floats(-1e3, 1e3), min_size=8, max_size=8), st.floats(-1e3, 1e3))
def test_chances_are_probabilities_whatever_is_measured(values, intercept):
    found = rule(now=tuple(values), now_intercept=intercept).chances(np.array(values))
    assert all(0.0 <= each <= 1.0 for each in found)


def test_another_round_is_asked_where_it_pays_and_only_while_one_is_left():
    policy = StoppingPolicy(rule(after_intercept=1.0), ThresholdPolicy(0.5))
    assert isinstance(policy, Policy)
    asked = decide(policy, AGREED)
    assert (asked.action, asked.strategy) == ("another_round", None)
    assert asked.reason == (
        "another round is expected to be right with 0.731 instead of 0.500, which exceeds its price of 0.01"
    )
    assert decide(policy, AGREED, round=2).answer == "Paris"
    assert decide(policy, AGREED, max_rounds=1).action == "answer"


def test_where_no_round_pays_the_other_policy_decides():
    policy = StoppingPolicy(rule(), ThresholdPolicy(0.5, otherwise="escalate"))
    assert decide(policy, AGREED).answer == "Paris"
    assert decide(policy, SPLIT).action == "escalate"
    again = StoppingPolicy(rule(), ThresholdPolicy(0.5, otherwise="another_round"))
    stopped = decide(again, SPLIT)
    assert (stopped.action, stopped.answer) == ("abstain", None)
    assert stopped.reason.endswith("exceeds 0.5 nats; another round is not expected to pay")
    assert decide(again, SPLIT, round=2).action == "another_round"  # the graph says which bound ends it


def test_a_tie_is_what_the_other_policy_makes_of_it():
    tied = measured(("a", ["Paris"]), ("b", ["Lyon"]))
    assert decide(StoppingPolicy(rule(), ThresholdPolicy(9.0, otherwise="escalate")), tied).action == "escalate"


def test_another_divergence_warns_and_asks_for_no_round():
    policy = StoppingPolicy(rule(after_intercept=5.0), ThresholdPolicy(0.5))
    other = measured(("a", ["Paris"]), ("b", ["Paris"]), divergence="js")
    with pytest.warns(UserWarning, match='learned with the divergence "kl", and is not used with "js"'):
        assert decide(policy, other).action == "answer"


def test_it_has_the_regimes_of_the_rule_and_the_thresholds_of_the_other_policy():
    policy = StoppingPolicy(rule(aleatoric_threshold=0.4), ThresholdPolicy(0.5))
    assert isinstance(policy, RegimeThresholds)
    assert (policy.aleatoric_threshold, policy.epistemic_threshold) == (0.4, 0.3)
    assert isinstance(policy, TunablePolicy)
    assert policy.thresholds == ("max_coe",)
    assert repr(policy.with_thresholds({"max_coe": 0.2})) == (
        "StoppingPolicy(price=0.01, then=ThresholdPolicy(0.2, otherwise='abstain'))"
    )
    regimes = RegimePolicy(0.5, 0.3)
    assert StoppingPolicy(rule(), regimes).thresholds == ()
    with pytest.raises(ValueError, match=r'"aleatoric_threshold" of "then" must be that of the rule, 0.4; got 0.5'):
        StoppingPolicy(rule(aleatoric_threshold=0.4), regimes)
    with pytest.raises(ValueError, match="must not ask in stages"):
        StoppingPolicy(rule(), CascadePolicy([["a"], ["b"]], [0.1, 0.1]))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"now": (0.0,)}, '"now" of a stopping rule must hold 8 finite numbers'),
        ({"after": (math.nan, *NONE[1:])}, '"after" of a stopping rule must hold 8 finite numbers'),
        ({"now_intercept": math.inf}, "the intercepts"),
        ({"price": -0.1}, '"price" of a stopping rule must be a finite number of at least 0; got -0.1'),
        ({"n_rounds": 1}, '"n_rounds" of a stopping rule must be an integer of at least 2; got 1'),
        ({"n_rounds": 10**400}, '"n_rounds"'),
        ({"n_questions": 0}, '"n_questions"'),
        ({"divergence": 3}, '"divergence"'),
        ({"epistemic_threshold": math.inf}, '"epistemic_threshold" of a stopping rule must be finite'),
    ],
)
def test_mistakes(change, said):
    with pytest.raises(ValueError, match=said):
        rule(**change)


def test_a_saved_rule_is_the_same_rule(tmp_path):
    learned = rule(now=on(fall=1 / 3), after_intercept=0.1, divergence="js", epistemic_threshold=0.2)
    learned.save(tmp_path / "rule.json")
    assert StoppingRule.load(tmp_path / "rule.json") == learned


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda record: record | {"format": "else"}, "is not a stopping rule"),
        (lambda record: [record], "is not a stopping rule"),
        (lambda record: record | {"features": ["round"]}, "are not those of this version"),
        (lambda record: record | {"now": [1.0]}, "must hold 8 finite numbers"),
        (lambda record: record | {"more": 1}, "is damaged"),
        (lambda record: {name: value for name, value in record.items() if name != "price"}, "is damaged"),
        (lambda record: record | {"aleatoric_threshold": "x"}, "is damaged"),
    ],
)
def test_a_damaged_file_is_refused_and_named(tmp_path, change, said):
    path = tmp_path / "rule.json"
    rule().save(path)
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    with pytest.raises(ConfigurationError, match=said) as caught:
        StoppingRule.load(path)
    assert str(path) in str(caught.value)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        StoppingRule.load(tmp_path / "none.json")


def graph(learned, *, max_rounds=3, **then):
    agents = [ScriptedAgent("a", ["Paris", "Paris"]), ScriptedAgent("b", ["Lyon", "Lyon"])]
    policy = StoppingPolicy(learned, ThresholdPolicy(0.5, **then))
    return create_coe_graph(agents, clusterer=NormalizedMatch(), policy=policy, max_rounds=max_rounds).compile()


def test_a_graph_asks_as_many_rounds_as_the_rule():
    # pays in the first round only: there the gain is 0.731 - 0.5, then 0.5 - 0.5
    once = rule(after=on(round=-1.0), after_intercept=1.0)
    decision = graph(once).invoke({"question": "Which?"})["decision"]
    assert decision["n_rounds"] == 2
    assert decision["action"] == "abstain"
    assert graph(rule()).invoke({"question": "Which?"})["decision"]["n_rounds"] == 1
    always = graph(rule(after_intercept=1.0)).invoke({"question": "Which?"})["decision"]
    assert always["n_rounds"] == 3


def test_the_graph_tells_the_rule_how_much_the_epistemic_part_fell_and_the_conformity():
    seen = []

    class Noting:
        def decide(self, measurement, *, round, max_rounds):
            return Decision("abstain")

    class NotingRule(StoppingRule):
        def chances(self, features):
            seen.append(features.tolist())
            return super().chances(features)

    learned = NotingRule(
        now=NONE, now_intercept=0.0, after=NONE, after_intercept=1.0, price=0.0, n_rounds=4, n_questions=9
    )
    # b takes over what it was shown: U_E falls from log 2 to 0, and half of the agents conformed
    agents = [
        ScriptedAgent("a", ["Paris", "Paris"], weight=1.5),
        ScriptedAgent("b", ["Lyon", "Lyon"], ["Paris", "Paris"]),
    ]
    asked = create_coe_graph(
        agents, clusterer=NormalizedMatch(), policy=StoppingPolicy(learned, Noting()), max_rounds=4
    ).compile()
    decision = asked.invoke({"question": "Which?"})["decision"]
    first, second = decision["trajectory"][:2]
    assert first["epistemic"] > 0.6 > second["epistemic"] == 0.0
    after = {each[0]: dict(zip(STOPPING_FEATURES, each, strict=True)) for each in seen}
    assert [after[number]["fall"] for number in (0, 1, 2)] == [0.0, first["epistemic"], 0.0]
    assert after[1]["conformity"] == decision["conformity"] == 0.5


def test_a_graph_warns_that_the_policy_inside_was_calibrated_for_another():
    calibrated = CalibratedPolicy(replace(CALIBRATION, clusterer="BidirectionalEntailment"))
    with pytest.warns(UserWarning, match="clusterer NormalizedMatch differs from BidirectionalEntailment"):
        create_coe_graph(
            [ScriptedAgent(name, ["Paris"]) for name in "ab"],
            clusterer=NormalizedMatch(),
            policy=StoppingPolicy(rule(), calibrated),
            max_rounds=2,
        )
