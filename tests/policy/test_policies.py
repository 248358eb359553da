import pytest

from coe_agents.policy import Decision, Measurement, Policy, RegimePolicy, ThresholdPolicy


def measurement(*, aleatoric=0.0, epistemic=0.0, regime="consensus"):
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
    ],
)
def test_unknown_names_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_both_are_policies():
    assert isinstance(ThresholdPolicy(1), Policy)
    assert isinstance(RegimePolicy(1, 1), Policy)
