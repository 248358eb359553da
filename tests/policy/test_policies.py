import math
from dataclasses import replace
from types import SimpleNamespace

import pytest

from coe_agents.policy import Decision, FixedRounds, RegimePolicy, SupportPolicy, ThresholdPolicy
from coe_agents.policy.base import change_thresholds, quorum, regime_thresholds, without_tie
from coe_agents.policy.bounds import Bounds, CostBudget, Spent
from coe_agents.policy.settle import Rules, settle
from tests.graph.groups import Deciding
from tests.measurement.measurements import decide, with_proposals
from tests.measurement.measurements import measured as measurement


def without_reason(decision):
    return replace(decision, reason="")


def test_threshold_answers_up_to_the_threshold_which_may_be_0():
    confident = decide(ThresholdPolicy(0.5), measurement(aleatoric=0.5))
    assert without_reason(confident) == Decision("answer", "Paris", cause="confident")
    unsure = measurement(aleatoric=0.25, epistemic=0.375)
    withheld = decide(ThresholdPolicy(0.5, otherwise="escalate"), unsure)
    assert without_reason(withheld) == Decision("escalate", cause="uncertain")
    split = (
        (0.7, [1.0]),
        (0.6, [1.0, 3.0]),
        (math.log(2), [1.0, 1.0]),
        (0.693, [1.0] * 17),
    )  # H(1/4) = 0.562
    assert [bool(ThresholdPolicy(most).caution(weights)) for most, weights in split] == [
        False,
        True,
        True,
        False,
    ]
    assert repr(ThresholdPolicy(0)) == "ThresholdPolicy(0.0, otherwise='abstain')"
    assert decide(ThresholdPolicy(0), measurement()).action == "answer"
    assert decide(RegimePolicy(0, 0), measurement()).action == "answer"


@pytest.mark.parametrize("value", [-0.1, float("nan")])
def test_thresholds_must_be_nats(value):
    wanted = (
        f", in nats, must be a number of at least 0; got {value}. Choose it on labelled questions"
    )
    with pytest.raises(ValueError, match=f'^"max_coe" of ThresholdPolicy{wanted}'):
        ThresholdPolicy(value)
    with pytest.raises(ValueError, match=f'^"aleatoric_threshold" of RegimePolicy{wanted}'):
        RegimePolicy(value, 0.3)
    with pytest.raises(ValueError, match=f'^"epistemic_threshold" of RegimePolicy{wanted}'):
        RegimePolicy(0.5, value)


def test_a_regime_answers_in_consensus_alone():
    policy = RegimePolicy(0.5, 0.25)
    agreed = decide(policy, measurement(aleatoric=0.5, epistemic=0.25))
    assert without_reason(agreed) == Decision("answer", "Paris", cause="confident")
    unsure = decide(policy, measurement(aleatoric=0.51, epistemic=0.26, regime="unknown"))
    assert without_reason(unsure) == Decision("abstain", cause="uncertain")


@pytest.mark.wording
def test_a_reason_says_the_numbers_and_the_name_of_a_regime_unless_it_is_consensus():
    threshold = ThresholdPolicy(0.5)
    confident = decide(threshold, measurement(aleatoric=0.5))
    assert confident.reason == "confident enough: CoE 0.500 is at most 0.5 nats"
    withheld = decide(threshold, measurement(aleatoric=0.25, epistemic=0.375))
    parts = "(aleatoric 0.250 within models, epistemic 0.375 between models)"
    assert withheld.reason == f"not confident enough: CoE 0.625 {parts} exceeds 0.5 nats"

    regimes = RegimePolicy(0.5, 0.25)
    agreed = decide(regimes, measurement(aleatoric=0.5, epistemic=0.25))
    said = "each is confident, and they agree: aleatoric 0.500 within models is at most 0.5 nats, "
    assert agreed.reason == said + "epistemic 0.250 between models is at most 0.25 nats"
    unsure = decide(regimes, measurement(aleatoric=0.51, epistemic=0.26, regime="unknown"))
    said = "unknown, each is unsure, and they disagree: aleatoric 0.510 within models exceeds "
    assert unsure.reason == said + "0.5 nats, epistemic 0.260 between models exceeds 0.25 nats"


TIED = ("Paris", "Rome")


@pytest.mark.parametrize("otherwise", ["another_round", "answer", "guess", ["escalate"], None])
def test_an_answered_tie_becomes_the_otherwise_of_the_policy(otherwise):
    policy = object() if otherwise is None else SimpleNamespace(otherwise=otherwise)
    tied = replace(measurement(), tied=TIED)
    action = "another_round" if otherwise == "another_round" else "abstain"
    reason = "2 answers share the lead, and a tie is never answered"
    expected = Decision(action, None, reason, cause="tie")
    assert without_tie(Decision("answer", "Paris"), tied, policy) == expected
    for untouched in (
        Decision("escalate", None, "why"),
        Decision("answer", "Paris", trusted_answer=True),
    ):
        assert without_tie(untouched, tied, policy) is untouched
    answered = Decision("answer", "Paris")
    assert without_tie(answered, measurement(), policy) is answered
    table = SimpleNamespace(actions={}, otherwise="escalate")
    assert without_tie(answered, tied, table).action == "abstain"


def test_bounds_and_a_callers_limits_hold_whatever_the_policy():
    cases = [
        ("another_round", {"max_rounds": 2}, Spent(round=5), "escalate", "abstain", "rounds"),
        ("another_round", {"token_budget": 2}, Spent(tokens=9), "escalate", "escalate", "budget"),
        (
            "another_round",
            {"deadline": 2},
            Spent(seconds=2.0),
            "another_round",
            "abstain",
            "deadline",
        ),
        ("another_round", {}, Spent(tokens=None), "escalate", "another_round", "policy"),
        ("answer", {}, Spent(), "escalate", "escalate", "limit_of_caller"),
        ("answer", {}, Spent(), "escalate", "answer", "policy"),
    ]
    answered = measurement(aleatoric=0.1, representatives=("Paris",))
    for wanted, bounds, spent, otherwise, action, cause in cases:
        policy = Deciding(Decision(wanted), otherwise=otherwise)
        rules = Rules(
            bounds=Bounds(**bounds), limits=Bounds(max_coe=0.1 if action == "answer" else 0.05)
        )
        found = settle(policy, answered, rules, asked="a", answered="a", spent=spent)
        assert found.action == action
        assert found.cause == cause
        assert policy.seen[0][1] == bounds.get("max_rounds", 1)


@pytest.mark.parametrize(
    ("n_rounds", "cost", "action"),
    [(1, 0.0, "abstain"), (2, 0.5, "abstain"), (2, 0.0, "another_round")],
)
def test_money_that_is_left_opens_no_other_bound(n_rounds, cost, action):
    rules = Rules(bounds=Bounds(max_rounds=n_rounds), cost_budget=CostBudget(0.5, {}))
    policy = Deciding(Decision("another_round"), otherwise="another_round")
    spent = Spent(cost=cost)
    found = settle(policy, measurement(), rules, asked="a", answered="a", spent=spent)
    assert found.action == action


@pytest.mark.parametrize(
    ("limits", "action", "cause"),
    [
        ({"max_rounds": 1}, "abstain", "rounds"),
        ({"token_budget": 5}, "escalate", "budget"),
        ({"max_rounds": 3}, "another_round", "uncertain"),
    ],
)
def test_a_limit_of_the_caller_forbids_another_round_that_the_run_allows(limits, action, cause):
    rules = Rules(bounds=Bounds(max_rounds=3), limits=Bounds(**limits))
    policy = Deciding(Decision("another_round", cause="uncertain"), otherwise="escalate")
    found = settle(policy, measurement(), rules, asked="a", answered="a", spent=Spent(tokens=9))
    assert (found.action, found.cause) == (action, cause)


@pytest.mark.parametrize(("budget", "n"), [(None, 4), (60, 4), (30, 4), (20, 2), (12, 1)])
def test_fewer_responses_are_asked_for_only_where_the_tokens_left_are_too_few(budget, n):
    # 10 tokens are spent, and a response takes 5: of 4 more responses of one agent, 20
    fitting = Bounds(token_budget=budget).fit({"a": 4}, Spent(tokens=10, n_responses=2))
    assert fitting == {"a": n}


@pytest.mark.parametrize(
    ("answered", "spent", "cause"),
    [("a", Spent(), "quorum"), ("", Spent(), "unavailable"), ("a", Spent(seconds=9.0), "deadline")],
)
def test_without_a_quorum_the_cause_says_whether_anybody_answered_in_time(answered, spent, cause):
    rules = Rules(bounds=Bounds(deadline=9.0), min_agents=2)
    found = settle(
        ThresholdPolicy(1.0), measurement(), rules, asked="ab", answered=answered, spent=spent
    )
    assert (found.action, found.cause) == ("abstain", cause)


def test_what_is_no_answer_is_named_and_so_are_votes_and_another_proposal():
    answering = Deciding(Decision("answer"), otherwise="escalate")
    said = measurement(representatives=("Paris",))
    proposed = with_proposals(said, proposer="a", by_agent={"a": "Rome", "b": "Paris"})
    cases = [
        (replace(said, answer_kind="refusal"), Rules(), "abstain", "refusal"),
        (replace(said, answer_kind="empty"), Rules(), "abstain", "empty"),
        (said, Rules(answerable=("call",)), "abstain", "invalid"),
        (proposed, Rules(), "abstain", "other_proposal"),
        (said, Rules(min_votes=3), "escalate", "votes"),
        (None, Rules(), "abstain", "unavailable"),
    ]
    for one, rules, action, cause in cases:
        found = settle(answering, one, rules, asked="a", answered="a", spent=Spent())
        assert (found.action, found.answer, found.cause) == (action, None, cause)


@pytest.mark.parametrize(("n_agents", "least"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_the_quorum_is_a_majority_unless_given(n_agents, least):
    assert quorum(n_agents, None) == least
    assert quorum(n_agents, 1) == 1


def test_regimes_have_safe_defaults_and_thresholds_of_their_own_some_of_which_are_never_reached():
    policy = RegimePolicy(0.5, 0.3, actions={"conflict": "another_round"})
    actions = {
        regime: decide(policy, measurement(regime=regime)).action for regime in policy.actions
    }
    assert actions == {
        "consensus": "answer",
        "conflict": "another_round",
        "ambiguous": "abstain",
        "unknown": "abstain",
    }
    # the epistemic part of K agents is at most log K: log 2 = 0.693
    assert RegimePolicy(0.5, 0.7).unreachable(n_agents=2) == ("conflict", "unknown")
    assert RegimePolicy(0.5, 0.7).unreachable(n_agents=3) == ()
    assert RegimePolicy(0.5, math.log(2)).unreachable(n_agents=2) == ("conflict", "unknown")
    assert regime_thresholds(ThresholdPolicy(0.5)) == (0.5, 0.3)
    assert regime_thresholds(RegimePolicy(0.4, 0.7)) == (0.4, 0.7)
    for other in (
        ThresholdPolicy(0.5),
        SupportPolicy(),
        FixedRounds(1, then=SupportPolicy()),
    ):  # of these a regime is only reported
        assert change_thresholds(other, {"epistemic_threshold": 0.1}) is other

    class Half:
        epistemic_threshold = 0.2

    with pytest.raises(
        TypeError, match=r'both thresholds or neither; got Half with "epistemic_threshold" only'
    ):
        regime_thresholds(Half())


def test_unknown_names_are_refused():
    for make, message in (
        (
            lambda: ThresholdPolicy(1, otherwise="answer"),
            '^"otherwise" of ThresholdPolicy .* one of abstain, escalate',
        ),
        (
            lambda: RegimePolicy(0.5, 0.3, actions={"conflict": "guess"}),
            "at 'conflict' must be one of answer, abstain",
        ),
        (
            lambda: RegimePolicy(0.5, 0.3, actions={"panic": "answer"}),
            "one of consensus, .*, unknown; got 'panic'",
        ),
        (lambda: Bounds(n_samples=0), r'^"n_samples" must be an integer in \[1, 500\]; got 0'),
        (
            lambda: Decision("answer", cause="guess"),
            '"cause" of a Decision must be one of confident, ',
        ),
        (
            lambda: Decision("guess"),
            "^\"action\" of a Decision must be one of answer, .*, another_round; got 'guess'",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            make()
