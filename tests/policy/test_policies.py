from dataclasses import replace

import pytest

from coe_agents.policy import (
    Decision,
    FalseConsensusGuard,
    Measurement,
    Policy,
    PolicyChain,
    ReachableRegimes,
    RegimePolicy,
    RegimeThresholds,
    SettlingPolicy,
    ThresholdPolicy,
)
from coe_agents.uncertainty import CoEForecast


def measurement(*, aleatoric=0.0, epistemic=0.0, regime="consensus", conformity=None, history=()):
    return Measurement(
        coe=aleatoric + epistemic,
        aleatoric=aleatoric,
        epistemic=epistemic,
        regime=regime,
        n_agents=3,
        support=(1.0,),
        answer="Paris",
        answer_kind="answer",
        surprisal=0.0,
        agents={},
        conformity=conformity,
        history=history,
    )


def decide(policy, measured):
    return policy.decide(measured, round=0, max_rounds=1)


def test_threshold_answers_up_to_the_threshold_and_says_the_numbers():
    assert decide(ThresholdPolicy(0.5), measurement(aleatoric=0.5)) == Decision(
        "answer", "Paris", "CoE 0.500 is at most 0.5 nats"
    )
    withheld = decide(ThresholdPolicy(0.5, otherwise="escalate"), measurement(aleatoric=0.25, epistemic=0.375))
    assert withheld == Decision("escalate", None, "CoE 0.625 (aleatoric 0.250, epistemic 0.375) exceeds 0.5 nats")


@pytest.mark.parametrize("value", [-0.1, float("nan")])
def test_thresholds_must_be_nats(value):
    with pytest.raises(ValueError, match="at least 0"):
        ThresholdPolicy(value)
    with pytest.raises(ValueError, match="at least 0"):
        RegimePolicy(0.5, value)


def test_a_threshold_is_a_number():
    with pytest.raises(TypeError, match=r'"max_coe" of ThresholdPolicy must be a number; got \'0\.5\'\. Pass'):
        ThresholdPolicy("0.5")


def test_regime_table_has_safe_defaults():
    policy = RegimePolicy(0.5, 0.3, actions={"conflict": "another_round"})
    actions = {regime: decide(policy, measurement(regime=regime)).action for regime in policy.actions}
    assert actions == {"consensus": "answer", "conflict": "another_round", "ambiguous": "abstain", "unknown": "abstain"}


def test_regime_says_which_thresholds_it_can_never_reach():
    # the epistemic part of K agents is at most log K: log 2 = 0.693
    assert RegimePolicy(0.5, 0.7).unreachable(n_agents=2) == ("conflict", "unknown")
    assert RegimePolicy(0.5, 0.7).unreachable(n_agents=3) == ()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ThresholdPolicy(0.5, otherwise="guess"), "must be one of"),
        (lambda: RegimePolicy(0.5, 0.3, actions={"conflict": "guess"}), "at 'conflict' must be one of"),
        (lambda: RegimePolicy(0.5, 0.3, actions={"panic": "answer"}), 'keys of "actions"'),
        (lambda: Decision("guess"), '"action" of a Decision'),
        (PolicyChain, "must hold at least one"),
        (lambda: FalseConsensusGuard(max_conformity=1.1), r"must be a share in \[0, 1\]"),
        (lambda: FalseConsensusGuard(max_conformity=float("nan")), "must be a share"),
        (lambda: FalseConsensusGuard(max_conformity=0, otherwise="guess"), "must be one of"),
        (lambda: FalseConsensusGuard(max_conformity=0, otherwise="answer"), "another action than"),
    ],
)
def test_unknown_names_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


class Passing:
    def __init__(self, decision=None):
        self.decision = decision

    def decide(self, measurement, *, round, max_rounds):
        return self.decision


def test_the_first_policy_of_a_chain_that_decides_wins():
    escalates = Passing(Decision("escalate", None, "told"))
    chain = PolicyChain(Passing(), escalates, ThresholdPolicy(0.5))
    assert decide(chain, measurement()) == escalates.decision
    assert decide(PolicyChain(Passing(), ThresholdPolicy(0.5)), measurement()).action == "answer"
    assert decide(PolicyChain(Passing(), Passing()), measurement()) == Decision(
        "abstain", None, "none of 2 policies decided"
    )


def test_a_chain_has_the_thresholds_of_its_first_policy_that_has_some():
    chain = PolicyChain(Passing(), RegimePolicy(0.4, 0.7), RegimePolicy(0.1, 0.8))
    assert (chain.aleatoric_threshold, chain.epistemic_threshold) == (0.4, 0.7)
    assert chain.unreachable(n_agents=2) == ("conflict", "unknown")
    assert (PolicyChain(Passing()).aleatoric_threshold, PolicyChain(Passing()).epistemic_threshold) == (0.5, 0.3)


def test_the_optional_hooks_of_a_policy_are_protocols():
    class Plain:
        def decide(self, measurement, *, round, max_rounds):
            return Decision("abstain")

    class Bounded(Plain):
        aleatoric_threshold, epistemic_threshold = 0.1, 0.2

        def is_settled(self, measurement):
            return True

    threshold, regime, plain, bounded = ThresholdPolicy(0.5), RegimePolicy(0.4, 0.7), Plain(), Bounded()
    assert [isinstance(one, Policy) for one in (threshold, regime, plain, bounded)] == [True] * 4
    assert [isinstance(one, SettlingPolicy) for one in (threshold, regime, plain, bounded)] == [True, True, False, True]
    assert [isinstance(one, RegimeThresholds) for one in (threshold, regime, plain, bounded)] == [
        False,
        True,
        False,
        True,
    ]
    assert [isinstance(one, ReachableRegimes) for one in (threshold, regime, plain, bounded)] == [
        False,
        True,
        False,
        False,
    ]
    assert PolicyChain(plain, bounded).aleatoric_threshold == 0.1


def test_half_of_the_thresholds_is_refused():
    class Half(Passing):
        epistemic_threshold = 0.2

    message = r'both thresholds or neither; got Half with "epistemic_threshold" only\. Add "aleatoric_threshold"'
    with pytest.raises(TypeError, match=message):
        PolicyChain(Half())


def test_a_chain_says_which_policy_returned_nonsense():
    with pytest.raises(TypeError, match="got str from Passing"):
        decide(PolicyChain(Passing("answer")), measurement())


def told(regime, *, adopted=None):
    return {"regime": regime, "adopted": adopted or {}}


CONFLICT, YIELDED = told("conflict"), told("conflict", adopted={"a": True})


@pytest.mark.parametrize(
    ("measured", "refused"),
    [
        ({"conformity": 0.5, "history": (CONFLICT,)}, True),
        ({"conformity": 0.4, "history": (CONFLICT,)}, False),  # no more than is allowed
        ({"conformity": None, "history": (CONFLICT,)}, False),  # no debate
        ({"conformity": 0.5, "history": (CONFLICT,), "regime": "conflict"}, False),  # no consensus
        (
            {"conformity": 0.5, "history": (CONFLICT, told("consensus"), YIELDED)},
            False,
        ),  # they had agreed by themselves
        ({"conformity": 0.5, "history": (CONFLICT, YIELDED, told("consensus"))}, True),  # only after they were told
    ],
)
def test_the_guard_refuses_an_agreement_that_is_conformity_alone(measured, refused):
    decision = decide(FalseConsensusGuard(max_conformity=0.4, otherwise="escalate"), measurement(**measured))
    assert (decision is not None) == refused
    if refused:
        assert (decision.action, decision.answer) == ("escalate", None)
        assert "50% of the agents" in decision.reason


def test_both_are_policies():
    assert isinstance(PolicyChain(Passing()), Policy)
    assert isinstance(ThresholdPolicy(1), Policy)
    assert isinstance(RegimePolicy(1, 1), Policy)


def forecast(*, total=(0.0, 1.0), aleatoric=(0.0, 0.0), epistemic=(0.0, 0.0), lead=1.0):
    return CoEForecast(total, aleatoric, epistemic, lead, 0.9)


def settled(policy, **expected):
    return policy.is_settled(replace(measurement(), forecast=forecast(**expected)))


def test_a_threshold_is_settled_on_either_side_and_below_it_only_with_its_answer():
    policy = ThresholdPolicy(0.5)
    assert [settled(policy, total=total) for total in ((0.0, 0.5), (0.51, 1.0), (0.5, 0.6), (0.0, 0.51))] == [
        True,
        True,
        False,
        False,
    ]
    assert settled(policy, total=(0.0, 0.2), lead=0.9)
    assert not settled(policy, total=(0.0, 0.2), lead=0.89)
    assert settled(policy, total=(0.6, 0.9), lead=0.1)  # it is not answered anyway


def test_regimes_are_settled_where_all_in_reach_have_one_action():
    policy = RegimePolicy(0.5, 0.3, actions={"unknown": "escalate"})
    assert settled(policy, aleatoric=(0.1, 0.4), epistemic=(0.0, 0.3))
    assert not settled(policy, aleatoric=(0.1, 0.4), epistemic=(0.0, 0.3), lead=0.5)
    assert not settled(policy, aleatoric=(0.1, 0.6))  # consensus or ambiguous
    assert not settled(policy, aleatoric=(0.4, 0.6), epistemic=(0.4, 0.6))  # conflict abstains, unknown escalates
    same = RegimePolicy(0.5, 0.3)
    assert settled(same, aleatoric=(0.4, 0.6), epistemic=(0.4, 0.6), lead=0.1)  # both abstain
    again = RegimePolicy(0.5, 0.3, actions=dict.fromkeys(("conflict", "unknown"), "another_round"))
    assert not settled(again, aleatoric=(0.4, 0.6), epistemic=(0.4, 0.6))  # the strategy depends on the regime
    assert settled(again, aleatoric=(0.0, 0.4), epistemic=(0.4, 0.6))


def test_a_chain_is_settled_where_each_policy_is():
    guard = FalseConsensusGuard(max_conformity=0.5)
    sure = replace(measurement(), forecast=forecast(total=(0.0, 0.1)))
    assert PolicyChain(guard, ThresholdPolicy(0.5)).is_settled(sure)
    assert not PolicyChain(guard, ThresholdPolicy(0.05)).is_settled(sure)
    assert not PolicyChain(guard, ThresholdPolicy(0.5)).is_settled(replace(sure, conformity=0.2))

    class Silent:
        def decide(self, measurement, *, round, max_rounds):
            return None

    assert not PolicyChain(Silent(), ThresholdPolicy(0.5)).is_settled(sure)


def test_without_a_forecast_nothing_is_settled():
    for policy in (ThresholdPolicy(0.5), RegimePolicy(0.5, 0.3)):
        assert not policy.is_settled(measurement())
