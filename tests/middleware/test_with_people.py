"""The stock HumanInTheLoopMiddleware beside ours."""

import pytest
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langgraph.types import Command

from coe_agents import CoEMiddleware
from coe_agents.middleware import CoEVerdicts, describe_call, lacks_approval
from tests.middleware.agents import AGAINST, MODES, PAY, SURE, THREAD, UNSURE, Bank, agent, judges, replies, run

every_mode = pytest.mark.parametrize("mode", MODES)
every_interrupt = pytest.mark.parametrize("interrupt_mode", ["batched", "per_call"])


def people(*, when=lacks_approval, mode="batched", decisions=("approve", "edit", "reject")):
    review = {"allowed_decisions": list(decisions), "when": when, "description": describe_call}
    return HumanInTheLoopMiddleware({"transfer_money": review}, interrupt_mode=mode)


def decided(decision, interrupt_mode):
    return Command(resume={"decisions": [decision]} if interrupt_mode == "batched" else decision)


def description(interrupts, interrupt_mode):
    value = interrupts[0].value
    return (value["action_requests"][0] if interrupt_mode == "batched" else value)["description"]


@every_mode
@every_interrupt
async def test_people_are_asked_only_about_what_the_group_does_not_approve(mode, interrupt_mode):
    _, graph = judges(*SURE)
    bank = Bank()
    both = [people(mode=interrupt_mode), CoEVerdicts(graph, tools=["transfer_money"])]
    state = await run(mode, agent(None, bank, middleware=both), PAY)
    assert "__interrupt__" not in state
    assert bank.transfers == [("Ann", 10.0)]


@every_mode
@every_interrupt
@pytest.mark.parametrize("said", [UNSURE, AGAINST], ids=["unsure", "against"])
@pytest.mark.parametrize("approved", [True, False])
async def test_a_person_who_knows_the_verdict_decides(mode, interrupt_mode, said, approved):
    agents, graph = judges(*said)
    bank = Bank()
    both = [people(mode=interrupt_mode), CoEVerdicts(graph, tools=["transfer_money"])]
    compiled = agent(None, bank, middleware=both)
    paused = await run(mode, compiled, PAY)
    wanted = (
        "the group is not sure: one of two agents says " if said is UNSURE else "the group is sure and does not approve"
    )
    shown = description(paused["__interrupt__"], interrupt_mode)
    assert shown.startswith(f'transfer_money {{"to": "Ann", "amount": 10}}\n{wanted}')
    assert bank.transfers == []
    decision = {"type": "approve" if approved else "reject"}
    await run(mode, compiled, decided(decision, interrupt_mode))
    assert bank.transfers == ([("Ann", 10.0)] if approved else [])
    assert [len(judge.requests) for judge in agents] == [1, 1]


@every_interrupt
@pytest.mark.parametrize("verdicts", [None, ["balance"]], ids=["not-there", "of-another-tool"])
def test_where_no_verdict_is_a_person_is_asked(interrupt_mode, verdicts):
    _, graph = judges(*SURE)
    bank = Bank()
    ours = [CoEVerdicts(graph, tools=verdicts)] if verdicts else []
    paused = agent(None, bank, middleware=[people(mode=interrupt_mode), *ours]).invoke(PAY, THREAD)
    assert description(paused["__interrupt__"], interrupt_mode).endswith("the group was not asked")
    assert bank.transfers == []


@every_interrupt
def test_in_the_wrong_order_a_person_is_asked_about_everything(interrupt_mode):
    _, graph = judges(*SURE)
    wrong = [CoEVerdicts(graph, tools=["transfer_money"]), people()]
    bank = Bank()
    assert agent(None, bank, middleware=wrong).invoke(PAY, THREAD)["__interrupt__"]
    assert bank.transfers == []


@every_mode
@every_interrupt
async def test_person_and_group_must_both_approve(mode, interrupt_mode):
    for said, transfers in ((SURE, [("Ann", 10.0)]), (UNSURE, []), (AGAINST, [])):
        agents, graph = judges(*said)
        bank = Bank()
        review = people(when=lambda request: True, mode=interrupt_mode)
        compiled = agent(None, bank, middleware=[review, CoEMiddleware(graph, tools=["transfer_money"])])
        assert (await run(mode, compiled, PAY))["__interrupt__"]
        await run(mode, compiled, decided({"type": "approve"}, interrupt_mode))
        assert bank.transfers == transfers
        assert len(agents[0].requests) == 1


@every_mode
@every_interrupt
@pytest.mark.parametrize(("said", "transfers"), [(SURE, [("Bob", 5.0)]), (UNSURE, [])], ids=["sure", "unsure"])
async def test_an_edited_call_is_judged_as_it_is_then(mode, interrupt_mode, said, transfers):
    agents, graph = judges(*said)
    bank = Bank()
    gate = CoEMiddleware(graph, tools=["transfer_money"], on_uncertain="interrupt")
    compiled = agent(None, bank, middleware=[people(when=lambda request: True, mode=interrupt_mode), gate])
    await run(mode, compiled, PAY)
    edited = {"name": "transfer_money", "args": {"to": "Bob", "amount": 5}}
    state = await run(mode, compiled, decided({"type": "edit", "edited_action": edited}, interrupt_mode))
    assert bank.transfers == transfers
    assert [reply.status for reply in replies(state)] == ["success" if transfers else "error"]
    assert ["Bob" in request["question"].split("<tool>")[1] for request in agents[0].requests] == [False, True]
