"""After some blocked proposals, or without a quorum, a person is asked in place of another block."""

import pytest

from coe_agents import CoECouncil
from coe_agents.middleware.withheld import is_withheld
from coe_agents.types import WITHHELD_MARK
from tests.middleware.agents import THREAD, agent
from tests.middleware.calls import ANN, BOB, DONE, PAY, call, replies, says
from tests.middleware.council import AGREE, Member, members
from tests.middleware.people import APPROVE, decide, requests

PAYS_BOB = [call(**BOB)]
DISAGREE = [PAYS_BOB, "Done."]
FAIL = [ConnectionError("down")]
REJECT = {"type": "reject"}


def paying(bank, *messages, scripts=(DISAGREE, DISAGREE), saver=True, **options):
    """An agent whose driver says the messages, under a council that asks a person after two blocks."""
    options = {"tools": ["transfer_money"], "escalate_after": 2, **options}
    council = CoECouncil(members(*scripts), **options)
    return agent(None, bank, *messages, DONE, middleware=[council], saver=saver)


def trials(n):
    """Payments to Ann of 0, 1, 2, ..., each in a message of its own."""
    messages = []
    for amount in range(n):
        payment = call(id=f"c{amount}", to="Ann", amount=amount)
        messages.append(says(payment))
    return messages


def amount_asked(state):
    """The amount of the one payment to Ann that a person is asked about."""
    [request] = requests(state)
    assert request["args"]["to"] == "Ann"
    return request["args"]["amount"]


@pytest.mark.parametrize("adaptive", [False, True])
def test_a_person_is_asked_in_place_of_the_third_block_and_approves_exactly_that_call(
    adaptive, bank
):
    asking = paying(bank, *trials(5), adaptive=adaptive)
    state = asking.invoke(PAY, THREAD)
    first, second = replies(state)
    assert is_withheld(first)
    assert is_withheld(second)
    assert amount_asked(state) == 2

    state = asking.invoke(decide(APPROVE), THREAD)
    assert bank.transfers == [("Ann", 2)]
    statuses = [reply.status for reply in replies(state)]
    assert statuses == ["error", "error", "success", "error", "error"]


def test_a_person_is_asked_after_more_blocks_than_end_a_run_by_default(bank):
    asking = paying(bank, *trials(4), escalate_after=3)
    state = asking.invoke(PAY, THREAD)
    assert amount_asked(state) == 3


def test_a_rejected_call_does_not_run_and_the_count_starts_again(bank):
    asking = paying(bank, *trials(6))
    asking.invoke(PAY, THREAD)
    state = asking.invoke(decide(REJECT), THREAD)
    assert bank.transfers == []
    assert amount_asked(state) == 5


def test_a_person_is_asked_at_once_where_too_few_members_answer(bank):
    asking = paying(bank, *trials(1), scripts=[AGREE, FAIL, FAIL])
    state = asking.invoke(PAY, THREAD)
    assert amount_asked(state) == 0


def test_a_member_without_weight_is_no_part_of_the_quorum(bank):
    idle = Member("idle", *FAIL, weight=0.0)
    group = [*members(DISAGREE), idle]
    gate = CoECouncil(group, tools=["transfer_money"], escalate_after=2)
    gated = agent(None, bank, *trials(1), DONE, middleware=[gate])
    state = gated.invoke(PAY, THREAD)
    assert "__interrupt__" not in state


def test_more_members_than_a_quorum_ask_no_person_before_their_time(bank):
    gated = paying(bank, *trials(1), scripts=[DISAGREE] * 3)
    state = gated.invoke(PAY, THREAD)
    assert "__interrupt__" not in state


# two calls of one id
UNREADABLE = says(call(id="c", **ANN), call(id="c", **ANN))


def test_a_call_that_cannot_be_read_counts_as_blocked_and_a_person_is_asked_about_the_next(bank):
    first, last = trials(2)
    asking = paying(bank, first, UNREADABLE, last, escalate_after=1)
    state = asking.invoke(PAY, THREAD)
    assert amount_asked(state) == 1


def test_where_a_person_is_asked_at_once_they_are_asked_about_the_first(bank):
    asking = paying(bank, *trials(1), on_uncertain="interrupt")
    state = asking.invoke(PAY, THREAD)
    assert amount_asked(state) == 0


def test_without_a_checkpointer_the_run_ends_and_says_so(bank):
    # so many blocks alone would not end it
    state = paying(bank, *trials(4), saver=False, max_blocked=9).invoke(PAY)
    assert bank.transfers == []
    assert state["messages"][-1].response_metadata[WITHHELD_MARK]
    assert "the agent has no checkpointer" in state["council"]["reason"]
    assert [is_withheld(reply) for reply in replies(state)] == [True] * 2


def test_a_driver_whose_call_cannot_be_read_is_shown_to_nobody(bank):
    gated = paying(bank, *[UNREADABLE] * 5, escalate_after=1)
    state = gated.invoke(PAY, THREAD)
    assert "__interrupt__" not in state
    assert bank.transfers == []
