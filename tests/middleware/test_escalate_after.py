"""After some blocked proposals, or without a quorum, a person is asked in place of another block."""

import pytest

from coe_agents import CoECouncil
from tests.middleware.agents import THREAD, agent
from tests.middleware.calls import ANN, BOB, DONE, PAY, call, replies, says
from tests.middleware.council import AGREE, Member, members
from tests.middleware.people import APPROVE, decide, requests

DISAGREE = [[call(**BOB)], "Done."]
FAIL = [ConnectionError("down")]
REJECT = {"type": "reject"}


def paying(bank, *messages, scripts=(DISAGREE, DISAGREE), saver=True, **options):
    options = {"tools": ["transfer_money"], "escalate_after": 2, **options}
    council = CoECouncil(members(*scripts), **options)
    return agent(None, bank, *messages, DONE, middleware=[council], saver=saver)


def trials(n):
    return [says(call(id=f"c{place}", to="Ann", amount=place)) for place in range(n)]


@pytest.mark.parametrize("adaptive", [False, True])
def test_a_person_is_asked_in_place_of_the_third_block_and_approves_exactly_that_call(
    adaptive, bank
):
    asking = paying(bank, *trials(5), adaptive=adaptive)
    state = asking.invoke(PAY, THREAD)
    assert [reply.status for reply in replies(state)] == ["error", "error"]
    assert 'the argument "' in replies(state)[0].text
    [request] = requests(state)
    assert request["args"] == {"to": "Ann", "amount": 2}
    state = asking.invoke(decide(APPROVE), THREAD)
    assert bank.transfers == [("Ann", 2)]
    statuses = [reply.status for reply in replies(state)]
    assert statuses == ["error", "error", "success", "error", "error"]


def test_a_person_is_asked_after_more_blocks_than_end_a_run_by_default(bank):
    [request] = requests(paying(bank, *trials(4), escalate_after=3).invoke(PAY, THREAD))
    assert request["args"] == {"to": "Ann", "amount": 3}


def test_a_rejected_call_does_not_run_and_the_count_starts_again(bank):
    asking = paying(bank, *trials(6))
    asking.invoke(PAY, THREAD)
    state = asking.invoke(decide(REJECT), THREAD)
    assert bank.transfers == []
    [request] = requests(state)
    assert request["args"] == {"to": "Ann", "amount": 5}


def test_a_person_is_asked_at_once_where_too_few_members_answer(bank):
    asking = paying(bank, *trials(1), scripts=[AGREE, FAIL, FAIL])
    [request] = requests(asking.invoke(PAY, THREAD))
    assert request["args"] == {"to": "Ann", "amount": 0}


def test_a_member_without_weight_is_no_part_of_the_quorum(bank):
    idle = Member("idle", *FAIL, weight=0.0)
    gate = CoECouncil([*members(DISAGREE), idle], tools=["transfer_money"], escalate_after=2)
    state = agent(None, bank, *trials(1), DONE, middleware=[gate]).invoke(PAY, THREAD)
    assert "__interrupt__" not in state


def test_more_members_than_a_quorum_ask_no_person_before_their_time(bank):
    state = paying(bank, *trials(1), scripts=[DISAGREE] * 3).invoke(PAY, THREAD)
    assert "__interrupt__" not in state


def test_a_call_that_cannot_be_read_counts_as_blocked_and_a_person_is_asked_about_the_next(bank):
    unreadable = says(call(id="c", **ANN), call(id="c", **ANN))
    first, last = trials(2)
    asking = paying(bank, first, unreadable, last, escalate_after=1)
    [request] = requests(asking.invoke(PAY, THREAD))
    assert request["args"] == {"to": "Ann", "amount": 1}


def test_where_a_person_is_asked_at_once_they_are_asked_about_the_first(bank):
    [request] = requests(paying(bank, *trials(1), on_uncertain="interrupt").invoke(PAY, THREAD))
    assert request["args"] == {"to": "Ann", "amount": 0}


def test_without_a_checkpointer_the_run_ends_and_says_so(bank):
    state = paying(bank, *trials(4), saver=False).invoke(PAY)
    assert bank.transfers == []
    assert "the agent has no checkpointer" in state["messages"][-1].text
    assert len(replies(state)) == 2


def test_a_driver_whose_call_cannot_be_read_is_shown_to_nobody(bank):
    unreadable = says(call(id="c", **ANN), call(id="c", **ANN))
    state = paying(bank, *[unreadable] * 5, escalate_after=1).invoke(PAY, THREAD)
    assert "__interrupt__" not in state
    assert bank.transfers == []
