import json
import math
from dataclasses import replace

import pytest

from coe_agents import SupportPolicy
from coe_agents.actions import ActionMatch, canonical_action
from coe_agents.policy import measure, settle
from coe_agents.policy.bounds import Spent
from coe_agents.policy.settle import Rules, representative_of
from coe_agents.policy.support import LearnedSupport, support_features
from coe_agents.testing import create_response
from tests.measurement.measurements import decide, with_proposals


def pay(amount, to="Ann"):
    return [{"name": "pay", "args": {"to": to, "amount": amount}}]


def propose(agent, calls, text="", index=0):
    return create_response(agent, text, index=index, answer=canonical_action(calls), calls=calls)


def payments(**amounts):
    """Proposals to pay Ann, an amount for each agent."""
    return [propose(agent, pay(amount)) for agent, amount in amounts.items()]


def measured(*rows, **options):
    clusterer = ActionMatch()
    (labels,) = clusterer.cluster([[row["answer"] or row["text"] for row in rows]], [""])
    return measure(rows, labels, clusterer=clusterer, **options)


def test_the_support_of_a_proposal_is_the_mean_probability_of_its_cluster_among_the_others():
    # a: 5; b: 5 and 6; c: 5. Others of a: (1/2 + 1) / 2; of b, whose first is 5: (1 + 1) / 2; of c: (1 + 1/2) / 2
    rows = [
        propose("a", pay(5)),
        propose("b", pay(5)),
        propose("b", pay(6), index=1),
        propose("c", pay(5)),
    ]
    assert measured(*rows).proposals.support == {"a": 0.75, "b": 1.0, "c": 0.75}
    # the others count by their weights
    rows = payments(a=5, b=5, c=6)
    weighed = measured(*rows, weights={"a": 1.0, "b": 3.0, "c": 1.0})
    assert weighed.proposals.support == pytest.approx({"a": 0.75, "b": 0.5, "c": 0.0})
    # without a proposer the leading cluster is judged
    assert decide(SupportPolicy(0.6), measured(*rows)).answer == canonical_action(pay(5))
    assert decide(SupportPolicy(0.7), measured(*rows)).action == "abstain"


def test_an_agent_alone_has_no_support_and_the_first_response_is_that_of_the_lowest_index():
    alone = propose("a", pay(5))
    assert measured(alone).proposals.support == {}
    rows = [alone, propose("b", pay(5))]
    assert measured(*rows, weights={"a": 1.0, "b": 0.0}).proposals.support == {"b": 1.0}
    assert decide(SupportPolicy(0.0), measured(alone, proposer="a")).action == "abstain"
    assert (
        decide(SupportPolicy(0.0), measured(rows[1], propose("c", pay(5)), proposer="a")).action
        == "abstain"
    )
    rows = [propose("a", pay(6), index=1), propose("a", pay(5)), propose("b", pay(5))]
    assert measured(*rows).proposals.by_agent["a"] == canonical_action(pay(5))


def test_the_kinds_of_a_leading_proposal():
    for calls, text, kind, answer in (
        (pay(5), "", "call", canonical_action(pay(5))),
        ([], "It is done already.", "no_call", "It is done already."),
        (
            [],
            "I'm sorry, but I can't help with that.",
            "refusal",
            "I'm sorry, but I can't help with that.",
        ),
        ([], "", "empty", ""),
    ):
        found = measured(propose("a", calls, text), propose("b", calls, text))
        assert found.answer_kind == kind
        assert found.answer == answer
        assert found.proposals.calls == tuple(calls)


def test_equal_actions_run_as_most_wrote_them_and_an_agent_without_a_weight_writes_nothing_that_runs():
    rows = [propose("a", pay(5, "ANN")), propose("b", pay(5, "Ann")), propose("c", pay(6, "Ann"))]
    found = measure(rows, [0, 0, 1], weights={"a": 0.0, "b": 1.0, "c": 0.5})
    assert found.proposals.calls == tuple(pay(5, "Ann"))
    assert [*found.proposals.contested["arguments"]] == ["amount"]
    rows = [
        propose(name, pay(amount))
        for name, amount in zip("abcdefg", (5, 5, 5.0, 5.0, 6, 6, 6), strict=True)
    ]
    assert measure(rows, [0] * 7).proposals.calls == tuple(
        pay(5)
    )  # as two of the four wrote it, and not the three
    rows = list(
        map(propose, "abcdef", ([], [], pay(5), pay(6), [], []), ["Done."] * 2 + ["All done."] * 4)
    )
    assert (
        measure(rows, [0, 0, 0, 0, 1, 1]).answer == "Done."
    )  # what others say who call something else
    rows = payments(a=5.0, b=5, c=5)
    assert json.dumps(measured(*rows).proposals.calls) == json.dumps(pay(5))
    assert json.dumps(measured(*rows).proposals.writings) == json.dumps(
        {canonical_action(pay(5)): pay(5)}
    )


def test_the_judged_proposal_needs_the_support_of_the_others_and_what_is_contested_counts_against_it():
    rows = payments(a=5, b=5, c=6)
    assert (
        decide(SupportPolicy(0.5 + 1e-10), measured(*rows, proposer="a")).action == "answer"
    )  # but for rounding
    withheld = decide(SupportPolicy(0.6, otherwise="escalate"), measured(*rows, proposer="a"))
    assert withheld.action == "escalate"
    assert withheld.reason == "the other agents support the proposal with 0.50, less than 0.6"
    rows = [propose("a", pay(900, "Bob")), propose("b", pay(5, "Bob")), propose("c", pay(5))]
    found = measured(*rows, proposer="a").proposals.contested
    assert list(found["arguments"]) == ["amount", "to"]  # two votes against 900, one against Bob


def test_a_judged_proposal_that_does_not_lead_or_ties_is_answered_with_itself_only():
    rows = [propose("a", pay(5)), propose("b", pay(5)), *(propose(name, pay(6)) for name in "cde")]
    asked = {"asked": "abcde", "answered": "abcde", "spent": Spent()}
    decision = settle(SupportPolicy(0.2), measured(*rows, proposer="a"), Rules(), **asked)
    assert decision.action == "answer"
    assert decision.answer == canonical_action(pay(5))
    assert representative_of(measured(*rows), None) == canonical_action(pay(6))
    rows = payments(a=5, b=5, c=6, d=6)
    assert decide(SupportPolicy(0.1), measured(*rows)).action == "abstain"
    assert decide(SupportPolicy(0.1), measured(*rows, proposer="a")).answer == canonical_action(
        pay(5)
    )
    assert (
        decide(SupportPolicy(0.1), measured(*rows[:1], *rows[2:], proposer="a")).action == "abstain"
    )


def test_a_vote_is_the_strict_majority_of_an_agents_own_responses_and_a_failed_one_supports_nothing():
    rows = [
        propose("a", pay(5)),
        *(propose("b", pay(amount), index=i) for i, amount in enumerate([5, 5, 6])),
    ]
    rows += [propose("c", pay(amount), index=i) for i, amount in enumerate([5, 6])]
    rows += payments(d=5, e=6)
    weights = {"a": 1.0, "b": 0.1, "c": 1.0, "d": 0.0, "e": 1.0}
    votes = measured(*rows, weights=weights, proposer="a").proposals.votes
    five = canonical_action(pay(5))
    six = canonical_action(pay(6))
    assert votes == {"a": five, "b": five, "c": None, "e": six}  # c is split, and d has no weight
    good = payments(b=5, a=5, c=5)
    failed = [
        create_response("c", "", index=1, error="down"),
        create_response("d", "", error="down"),
    ]
    found = measure([*good, *failed], [0, 0, 0, 1, 2], clusterer=ActionMatch(), proposer="a")
    assert found.proposals.votes["c"] is None
    assert found.proposals.voters(five) == ["a", "b"]
    assert found.proposals.support["a"] == pytest.approx((1 + 0.5 + 0) / 3)
    assert found.proposals.by_agent["c"] == canonical_action(pay(5))
    assert found.proposals.contested is None


def test_votes_are_counted_besides_the_support():
    rows = payments(a=5, b=5, c=5, d=6)
    judged = measured(*rows, proposer="a")
    group = measured(*rows)
    assert decide(SupportPolicy(0.6, min_votes=2), judged).reason == (
        "the other agents support the proposal with 0.67, at least 0.6; "
        "2 of 3 members propose the same; at least 2 must"
    )
    assert (
        decide(SupportPolicy(0.0, min_votes=3), judged).reason
        == "2 of 3 members propose the same; at least 3 must"
    )
    assert decide(SupportPolicy(0.7, min_votes=2), judged).action == "abstain"
    # where the group decides together, whoever proposes it is one of those that vote for it
    assert (
        decide(SupportPolicy(0.0, min_votes=2), group).reason
        == "3 of 4 agents propose the same; at least 3 must"
    )
    assert decide(SupportPolicy(0.0, min_votes=3), group).action == "abstain"


@pytest.mark.parametrize("min_votes", [1, 2, 3])
def test_votes_that_a_caller_asks_for_are_counted_whatever_the_policy(min_votes):
    rows = payments(a=5, b=5, c=5, d=6)
    policy = SupportPolicy(0.0, min_votes=2, otherwise="escalate")
    rules = {"asked": "abcd", "answered": "abcd", "spent": Spent()}
    found = settle(policy, measured(*rows, proposer="a"), Rules(min_votes=min_votes), **rules)
    assert found.action == ("answer" if min_votes <= 2 else "escalate")


def test_a_tool_and_calling_nothing_have_thresholds_of_their_own():
    by_tool = SupportPolicy(0.4, tools={"pay": 0.9})
    by_kind = SupportPolicy(0.4, no_call_min_support=0.6)

    def two_of_three(calls, other):
        return [propose("a", calls), propose("b", calls), propose("c", other)]

    log = [{"name": "log", "args": {}}]
    assert decide(by_tool, measured(*two_of_three(pay(5), log), proposer="a")).action == "abstain"
    assert decide(by_tool, measured(*two_of_three(log, pay(5)), proposer="a")).action == "answer"
    assert (
        decide(by_tool, measured(*two_of_three([*log, *pay(5)], log), proposer="a")).action
        == "abstain"
    )
    assert decide(by_kind, measured(*two_of_three([], log), proposer="a")).action == "abstain"
    assert (
        decide(
            by_kind, measured(*map(create_response, "abc", ("[]", "[]", "y")), proposer="a")
        ).action
        == "answer"
    )


def test_a_learned_support_reads_what_the_others_call_and_of_texts_only_who_says_the_same():
    rows = [
        propose("a", pay(5)),
        propose("b", pay(5)),
        propose("b", pay(6), index=1),
        propose("c", []),
    ]
    rows += [
        create_response("c", "Why?", index=1),
        create_response("d", "Why?"),
        propose("e", pay(5)),
    ]
    found = measured(*rows)
    assert support_features(found, "a", "bc").tolist() == [0.5, 0.0, 0.0, 0.5, 0.0]
    assert support_features(found, "c", "ab").tolist() == [0.0, 0.0, 0.0, 0.0, 1.0]
    texts = measured(*map(create_response, "abcde", ("[]", "[]", "y", "[]", "y")))
    assert support_features(texts, "a", "bcde").tolist() == [
        1.0,
        0.0,
        1.0,
        0.0,
        0.0,
        0.0,
        0.0,
        0.0,
        0.0,
    ]
    learned = LearnedSupport("a", ("b", "c"), (1.0, 2.0), (3.0, 4.0), 7.0, 0.5)
    # the proposal of "d" is "Why?", half of what "c" said; the other half of that calls nothing
    judged = with_proposals(found, proposer="d")
    assert learned.uncertainty(judged) == pytest.approx(
        1 / (1 + math.exp(-(0.5 + 2.0 / 2 + 4.0 / 2)))
    )
    # calling nothing: half of "c" says the same, which is calling nothing
    silent = 0.5 + 2.0 / 2 + 4.0 / 2 + 7.0
    assert replace(learned, proposer="e").uncertainty(
        with_proposals(found, proposer=None, by_agent={"e": "[]"})
    ) == pytest.approx(1 / (1 + math.exp(-silent)))
    steep = replace(learned, intercept=1e9)
    assert steep.uncertainty(judged) == 1.0
    assert replace(learned, intercept=-1e9).uncertainty(judged) == pytest.approx(0.0, abs=1e-200)
    none = {"agents": (), "same": (), "nothing": ()}
    for fields in (
        {"proposer": "b"},
        none,
        {"same": (1.0,)},
        {"nothing": (1.0,)},
        {"calls_nothing": math.nan},
        {"intercept": math.inf},
    ):
        with pytest.raises(ValueError, match="a learned support"):
            replace(learned, **fields)


def test_refuses():
    for shares in ({"min_support": 1.1}, {"tools": {"f": -1}}):
        with pytest.raises(ValueError, match=r"must be a number in \[0, 1\]"):
            SupportPolicy(**shares)
    for min_votes in (0, 1.5):
        with pytest.raises((ValueError, TypeError), match='"min_votes" of SupportPolicy must be'):
            SupportPolicy(min_votes=min_votes)


def test_bounds_of_a_run_come_after_the_votes():
    """Too few votes led to another round, though the run had none left."""
    policy = SupportPolicy(0.1, otherwise="another_round")
    rows = [propose(name, pay(5 if name in "ab" else 6)) for name in "abc"]
    said = measured(*rows, proposer="a")
    rules = Rules(min_votes=2)
    decision = settle(policy, said, rules, asked="abc", answered="abc", spent=Spent())
    assert (decision.action, decision.cause) == ("abstain", "rounds")
