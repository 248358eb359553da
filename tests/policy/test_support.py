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

FIVE = canonical_action([{"name": "pay", "args": {"to": "Ann", "amount": 5}}])
SIX = canonical_action([{"name": "pay", "args": {"to": "Ann", "amount": 6}}])
DECLINES = "I'm sorry, but I can't help with that."


def pay(amount, to="Ann"):
    return [{"name": "pay", "args": {"to": to, "amount": amount}}]


def propose(agent, calls, text="", index=0):
    return create_response(agent, text, index=index, answer=canonical_action(calls), calls=calls)


def payments(**amounts):
    """Proposals to pay Ann, an amount for each agent."""
    return [propose(agent, pay(amount)) for agent, amount in amounts.items()]


def samples(agent, *amounts):
    """Several proposals of one agent to pay Ann."""
    rows = []
    for index, amount in enumerate(amounts):
        rows.append(propose(agent, pay(amount), index=index))
    return rows


def measured(*rows, **options):
    clusterer = ActionMatch()
    texts = [row["answer"] or row["text"] for row in rows]
    [labels] = clusterer.cluster([texts], [""])
    return measure(rows, labels, clusterer=clusterer, **options)


def ruled(policy, rows, **options):
    """What a policy decides on proposals."""
    return decide(policy, measured(*rows, **options))


def test_the_support_of_a_proposal_is_the_mean_probability_of_its_cluster_among_the_others():
    # a: 5; b: 5 and 6; c: 5. Others of a: (1/2 + 1) / 2; of b, whose first is 5: (1 + 1) / 2; of c: (1 + 1/2) / 2
    rows = [*samples("a", 5), *samples("b", 5, 6), *samples("c", 5)]
    assert measured(*rows).proposals.support == {"a": 0.75, "b": 1.0, "c": 0.75}

    # the others count by their weights
    rows = payments(a=5, b=5, c=6)
    weighed = measured(*rows, weights={"a": 1.0, "b": 3.0, "c": 1.0})
    assert weighed.proposals.support == pytest.approx({"a": 0.75, "b": 0.5, "c": 0.0})

    # without a proposer the leading cluster is judged
    assert ruled(SupportPolicy(0.6), rows).answer == FIVE
    assert ruled(SupportPolicy(0.7), rows).action == "abstain"


def test_an_agent_alone_has_no_support_and_the_first_response_is_that_of_the_lowest_index():
    [alone] = payments(a=5)
    [of_b] = payments(b=5)
    [of_c] = payments(c=5)
    assert measured(alone).proposals.support == {}
    weighed = measured(alone, of_b, weights={"a": 1.0, "b": 0.0})
    assert weighed.proposals.support == {"b": 1.0}

    answers_all = SupportPolicy(0.0)
    assert ruled(answers_all, [alone], proposer="a").action == "abstain"
    without_proposer = [of_b, of_c]
    assert ruled(answers_all, without_proposer, proposer="a").action == "abstain"

    second, first = propose("a", pay(6), index=1), propose("a", pay(5))
    measurement = measured(second, first, of_b)
    assert measurement.proposals.by_agent["a"] == FIVE


@pytest.mark.parametrize(
    ("calls", "text", "kind", "answer"),
    [
        (pay(5), "", "call", FIVE),
        ([], "It is done already.", "no_call", "It is done already."),
        ([], DECLINES, "refusal", DECLINES),
        ([], "", "empty", ""),
    ],
)
def test_the_kinds_of_a_leading_proposal(calls, text, kind, answer):
    measurement = measured(propose("a", calls, text), propose("b", calls, text))
    assert measurement.answer_kind == kind
    assert measurement.answer == answer
    assert measurement.proposals.calls == tuple(calls)


def test_equal_actions_run_as_most_wrote_them_and_an_agent_without_a_weight_writes_nothing_that_runs():
    rows = [propose("a", pay(5, "ANN")), propose("b", pay(5, "Ann")), propose("c", pay(6, "Ann"))]
    measurement = measure(rows, [0, 0, 1], weights={"a": 0.0, "b": 1.0, "c": 0.5})
    assert measurement.proposals.calls == tuple(pay(5, "Ann"))
    assert [*measurement.proposals.contested["arguments"]] == ["amount"]

    # as two of the four wrote it, and not the three
    rows = payments(a=5, b=5, c=5.0, d=5.0, e=6, f=6, g=6)
    measurement = measure(rows, [0] * 7)
    assert measurement.proposals.calls == tuple(pay(5))

    # what others say who call something else does not count
    rows = [
        propose("a", [], "Done."),
        propose("b", [], "Done."),
        propose("c", pay(5), "All done."),
        propose("d", pay(6), "All done."),
        propose("e", [], "All done."),
        propose("f", [], "All done."),
    ]
    assert measure(rows, [0, 0, 0, 0, 1, 1]).answer == "Done."

    proposals = measured(*payments(a=5.0, b=5, c=5)).proposals
    assert json.dumps(proposals.calls) == json.dumps(pay(5))
    assert json.dumps(proposals.writings) == json.dumps({FIVE: pay(5)})


def test_the_judged_proposal_needs_the_support_of_the_others_and_what_is_contested_counts_against_it():
    rows = payments(a=5, b=5, c=6)
    but_for_rounding = SupportPolicy(0.5 + 1e-10)
    assert ruled(but_for_rounding, rows, proposer="a").action == "answer"

    withheld = ruled(SupportPolicy(0.6, otherwise="escalate"), rows, proposer="a")
    assert withheld.action == "escalate"
    assert withheld.reason == "the other agents support the proposal with 0.50, less than 0.6"

    rows = [propose("a", pay(900, "Bob")), propose("b", pay(5, "Bob")), propose("c", pay(5))]
    contested = measured(*rows, proposer="a").proposals.contested
    # two votes against 900, one against Bob
    assert list(contested["arguments"]) == ["amount", "to"]


def test_a_judged_proposal_that_does_not_lead_or_ties_is_answered_with_itself_only():
    rows = payments(a=5, b=5, c=6, d=6, e=6)
    of_a = measured(*rows, proposer="a")
    decision = settle(
        SupportPolicy(0.2), of_a, Rules(), asked="abcde", answered="abcde", spent=Spent()
    )
    assert decision.action == "answer"
    assert decision.answer == FIVE
    assert representative_of(measured(*rows), None) == SIX

    policy = SupportPolicy(0.1)
    rows = payments(a=5, b=5, c=6, d=6)
    assert ruled(policy, rows).action == "abstain"
    assert ruled(policy, rows, proposer="a").answer == FIVE
    without_b = payments(a=5, c=6, d=6)
    assert ruled(policy, without_b, proposer="a").action == "abstain"


def test_a_vote_is_the_strict_majority_of_an_agents_own_responses_and_a_failed_one_supports_nothing():
    rows = [*samples("a", 5), *samples("b", 5, 5, 6), *samples("c", 5, 6), *payments(d=5, e=6)]
    weights = {"a": 1.0, "b": 0.1, "c": 1.0, "d": 0.0, "e": 1.0}
    votes = measured(*rows, weights=weights, proposer="a").proposals.votes
    # c is split, and d has no weight
    assert votes == {"a": FIVE, "b": FIVE, "c": None, "e": SIX}

    good = payments(b=5, a=5, c=5)
    failed = [
        create_response("c", "", index=1, error="down"),
        create_response("d", "", error="down"),
    ]
    measurement = measure([*good, *failed], [0, 0, 0, 1, 2], clusterer=ActionMatch(), proposer="a")
    proposals = measurement.proposals
    assert proposals.votes["c"] is None
    assert proposals.voters(FIVE) == ["a", "b"]
    assert proposals.support["a"] == pytest.approx((1 + 0.5 + 0) / 3)
    assert proposals.by_agent["c"] == FIVE
    assert proposals.contested is None


def test_votes_are_counted_besides_the_support():
    rows = payments(a=5, b=5, c=5, d=6)
    supported = ruled(SupportPolicy(0.6, min_votes=2), rows, proposer="a")
    assert supported.reason == (
        "the other agents support the proposal with 0.67, at least 0.6; "
        "2 of 3 members propose the same; at least 2 must"
    )
    outvoted = ruled(SupportPolicy(0.0, min_votes=3), rows, proposer="a")
    assert outvoted.reason == "2 of 3 members propose the same; at least 3 must"
    unsupported = ruled(SupportPolicy(0.7, min_votes=2), rows, proposer="a")
    assert unsupported.action == "abstain"

    # where the group decides together, whoever proposes it is one of those that vote for it
    together = ruled(SupportPolicy(0.0, min_votes=2), rows)
    assert together.reason == "3 of 4 agents propose the same; at least 3 must"
    outvoted = ruled(SupportPolicy(0.0, min_votes=3), rows)
    assert outvoted.action == "abstain"


@pytest.mark.parametrize("min_votes", [1, 2, 3])
def test_votes_that_a_caller_asks_for_are_counted_whatever_the_policy(min_votes):
    rows = payments(a=5, b=5, c=5, d=6)
    of_a = measured(*rows, proposer="a")
    policy = SupportPolicy(0.0, min_votes=2, otherwise="escalate")
    rules = Rules(min_votes=min_votes)
    decision = settle(policy, of_a, rules, asked="abcd", answered="abcd", spent=Spent())
    assert decision.action == ("answer" if min_votes <= 2 else "escalate")


def test_a_tool_and_calling_nothing_have_thresholds_of_their_own():
    by_tool = SupportPolicy(0.4, tools={"pay": 0.9})
    by_kind = SupportPolicy(0.4, no_call_min_support=0.6)
    log = [{"name": "log", "args": {}}]

    def action_by(policy, calls, other):
        """What is done with calls that two of three propose."""
        rows = [propose("a", calls), propose("b", calls), propose("c", other)]
        return ruled(policy, rows, proposer="a").action

    assert action_by(by_tool, pay(5), log) == "abstain"
    assert action_by(by_tool, log, pay(5)) == "answer"
    assert action_by(by_tool, [*log, *pay(5)], log) == "abstain"
    assert action_by(by_kind, [], log) == "abstain"

    # a text that reads as no call is a text
    texts = [
        create_response(name, text) for name, text in zip("abc", ("[]", "[]", "y"), strict=True)
    ]
    assert ruled(by_kind, texts, proposer="a").action == "answer"


def test_a_learned_support_reads_what_the_others_call_and_of_texts_only_who_says_the_same():
    rows = [
        *samples("a", 5),
        *samples("b", 5, 6),
        propose("c", []),
        create_response("c", "Why?", index=1),
        create_response("d", "Why?"),
        *samples("e", 5),
    ]
    measurement = measured(*rows)
    of_a = support_features(measurement, "a", "bc")
    assert of_a.tolist() == [0.5, 0.0, 0.0, 0.5, 0.0]
    of_c = support_features(measurement, "c", "ab")
    assert of_c.tolist() == [0.0, 0.0, 0.0, 0.0, 1.0]

    said = zip("abcde", ("[]", "[]", "y", "[]", "y"), strict=True)
    texts = measured(*(create_response(name, text) for name, text in said))
    same = [1.0, 0.0, 1.0, 0.0]
    nothing = [0.0] * 4
    calls_nothing = [0.0]
    of_texts = support_features(texts, "a", "bcde")
    assert of_texts.tolist() == [*same, *nothing, *calls_nothing]

    learned = LearnedSupport("a", ("b", "c"), (1.0, 2.0), (3.0, 4.0), 7.0, 0.5)
    # the proposal of "d" is "Why?", half of what "c" said; the other half of that calls nothing
    judged = with_proposals(measurement, proposer="d")
    log_odds = 0.5 + 2.0 / 2 + 4.0 / 2
    assert learned.uncertainty(judged) == pytest.approx(1 / (1 + math.exp(-log_odds)))

    # calling nothing: half of "c" says the same, which is calling nothing
    silent = with_proposals(measurement, proposer=None, by_agent={"e": "[]"})
    of_silent = replace(learned, proposer="e").uncertainty(silent)
    assert of_silent == pytest.approx(1 / (1 + math.exp(-(log_odds + 7.0))))

    steep = replace(learned, intercept=1e9)
    assert steep.uncertainty(judged) == 1.0
    steep = replace(learned, intercept=-1e9)
    assert steep.uncertainty(judged) == pytest.approx(0.0, abs=1e-200)


def test_refuses():
    for shares in ({"min_support": 1.1}, {"tools": {"f": -1}}):
        with pytest.raises(ValueError, match=r"must be a number in \[0, 1\]"):
            SupportPolicy(**shares)
    for min_votes in (0, 1.5):
        with pytest.raises((ValueError, TypeError), match='"min_votes" of SupportPolicy must be'):
            SupportPolicy(min_votes=min_votes)


@pytest.mark.parametrize(
    "fields",
    [
        {"proposer": "b"},
        {"agents": (), "same": (), "nothing": ()},
        {"same": (1.0,)},
        {"nothing": (1.0,)},
        {"calls_nothing": math.nan},
        {"intercept": math.inf},
    ],
)
def test_a_learned_support_that_does_not_fit_together_is_refused(fields):
    learned = LearnedSupport("a", ("b", "c"), (1.0, 2.0), (3.0, 4.0), 7.0, 0.5)
    with pytest.raises(ValueError, match="a learned support"):
        replace(learned, **fields)


def test_bounds_of_a_run_come_after_the_votes():
    """Too few votes led to another round, though the run had none left."""
    policy = SupportPolicy(0.1, otherwise="another_round")
    of_a = measured(*payments(a=5, b=5, c=6), proposer="a")
    rules = Rules(min_votes=2)
    decision = settle(policy, of_a, rules, asked="abc", answered="abc", spent=Spent())
    assert decision.action == "abstain"
    assert decision.cause == "rounds"
