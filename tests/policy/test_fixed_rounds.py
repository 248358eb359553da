import copy
import math

import pytest

from coe_agents import RegimePolicy, SupportPolicy, ThresholdPolicy, ask
from coe_agents.policy import FixedRounds
from coe_agents.policy.fixed_rounds import rounds_of
from coe_agents.testing import ScriptedAgent


def test_n_rounds_are_asked_though_the_first_would_do_and_then_the_other_policy_decides():
    agents = [ScriptedAgent("a", ["Paris"]), ScriptedAgent("b", ["Paris"])]
    decision = ask("Q?", agents, policy=FixedRounds(3, then=RegimePolicy()))
    assert decision.action == "answer"
    assert decision.answer == "Paris"
    assert decision.n_rounds == 3
    agents = [ScriptedAgent("a", ["Paris"]), ScriptedAgent("b", ["Lyon"])]
    policy = FixedRounds(2, then=RegimePolicy())
    decision = ask("Q?", agents, policy=policy, max_rounds=2, strategies={"conflict": "resample"})
    assert decision.action == "abstain"
    assert decision.n_rounds == 2
    assert decision.trajectory[1]["strategy"] == "resample"  # "debate" by default


def test_a_graph_refuses_fewer_rounds_and_warns_of_the_other_policy_whose_thresholds_it_has():
    with pytest.raises(
        ValueError,
        match=r'"max_rounds" must be at least 3 for .*; got 2\. Omit it, or pass max_rounds=3',
    ):
        ask(
            "Q?",
            [ScriptedAgent("a", ["x"])],
            policy=FixedRounds(3, then=RegimePolicy()),
            max_rounds=2,
        )
    with pytest.raises(ValueError, match='"n" of FixedRounds'):
        FixedRounds(0, then=RegimePolicy())
    with pytest.raises(TypeError, match='"then" of FixedRounds'):
        FixedRounds(2, then="regime")
    agents = [ScriptedAgent(name, ["x"]) for name in "abc"]
    with pytest.warns(UserWarning, match="answers agents that are split in two"):
        ask("Q?", agents, policy=FixedRounds(1, then=ThresholdPolicy(0.7)))
    policy = FixedRounds(2, then=ThresholdPolicy(0.5, otherwise="escalate"))
    assert policy.max_coe == 0.5
    assert policy.otherwise == "escalate"
    assert policy.thresholds == ("max_coe",)
    assert policy.with_thresholds({"max_coe": 0.1}).then.max_coe == 0.1
    assert not hasattr(policy, "aleatoric_threshold")


def test_nothing_else_is_read_of_the_policy_that_decides_in_the_end():
    policy = FixedRounds(2, then=SupportPolicy(0.6))
    assert not hasattr(policy, "min_votes")
    assert repr(copy.deepcopy(policy)) == repr(policy)


def test_as_many_rounds_may_be_asked_as_are_passed_or_as_the_policy_needs():
    fixed = FixedRounds(3, then=RegimePolicy())
    assert [rounds_of(fixed, None), rounds_of(fixed, 5)] == [3, 5]
    assert [rounds_of(RegimePolicy(), None), rounds_of(RegimePolicy(), 2)] == [1, 2]


def test_each_agent_of_each_round_is_a_row():
    agents = [ScriptedAgent("a", ["Paris"], ["Lyon", "Paris"]), ScriptedAgent("b", ["Lyon"])]
    policy = FixedRounds(2, then=ThresholdPolicy(math.inf))
    strategies = {"conflict": "debate"}
    decision = ask("Q?", agents, policy=policy, max_rounds=2, strategies=strategies)
    frame = decision.to_frame()
    said = [
        ("Q?", 0, "a", "Paris"),
        ("Q?", 0, "b", "Lyon"),
        ("Q?", 1, "a", "Lyon"),
        ("Q?", 1, "b", "Lyon"),
    ]
    assert [
        *frame[["question", "round", "agent", "answer"]].itertuples(index=False, name=None)
    ] == said
    assert (
        "tokens" not in frame
    )  # known of the group alone: a sum over rows would count it once for each agent
    assert frame["entropy"].tolist() == pytest.approx([0, 0, math.log(2), 0])
    assert frame["flipped"].tolist()[2:] == [True, False]
    assert frame["coe"].tolist()[0] == pytest.approx(math.log(2))
    assert [len(axes.lines) for axes in decision.plot_rounds().axes] == [2, 3]
