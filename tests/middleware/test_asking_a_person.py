import pytest
from langchain_core.runnables import RunnableLambda
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from pydantic import BaseModel, ValidationError

from coe_agents import ThresholdPolicy, create_coe_graph
from coe_agents.clustering import NormalizedMatch
from coe_agents.graph.state import CoEState
from tests.middleware.agents import (
    AGAINST,
    ANN,
    BOB,
    MODES,
    PAY,
    SURE,
    THREAD,
    UNSURE,
    Bank,
    agent,
    call,
    judged_by,
    judges,
    replies,
    run,
    says,
)

every_mode = pytest.mark.parametrize("mode", MODES)
GO = {"messages": [("user", "Go.")]}
EDIT = {"type": "edit", "edited_action": {"name": "transfer_money", "args": BOB}}


def decide(*decisions):
    return Command(resume={"decisions": list(decisions)})


@every_mode
async def test_a_person_is_asked_in_langchains_form_and_the_group_is_not_asked_again(mode):
    agents, graph = judges(*UNSURE)
    bank = Bank()
    compiled = agent(graph, bank, on_uncertain="interrupt")
    paused = await run(mode, compiled, PAY)
    (asked,) = paused["__interrupt__"]
    assert set(asked.value) == {"action_requests", "review_configs"}
    (request,) = asked.value["action_requests"]
    assert (request["name"], request["args"]) == ("transfer_money", {"to": "Ann", "amount": 10})
    every_decision = ["approve", "edit", "reject", "respond"]
    assert asked.value["review_configs"] == [{"action_name": "transfer_money", "allowed_decisions": every_decision}]
    for part in (
        'transfer_money {"to": "Ann", "amount": 10}',
        'the group is not confident: one of two agents says "approve", one says "reject"',
        "CoE 0.693 = aleatoric 0.000 + epistemic 0.693 nats",
        "judge0: approve 100%\njudge1: reject 100%",
        '<arguments>{"to": "Ann", "amount": 10}</arguments>\nIs this call right',
    ):
        assert part in request["description"]
    assert bank.transfers == []
    state = await run(mode, compiled, decide({"type": "approve"}))
    assert bank.transfers == [("Ann", 10.0)]
    assert state["messages"][-1].content == "Done."
    assert [len(judge.requests) for judge in agents] == [1, 1]


@pytest.mark.parametrize("divergence", ["kl", "js", "hellinger"])
def test_the_numbers_carry_their_unit(divergence):
    agents, _ = judges(*UNSURE)
    policy = ThresholdPolicy(0.5)
    graph = create_coe_graph(agents, clusterer=NormalizedMatch(), policy=policy, divergence=divergence).compile()
    paused = agent(graph, Bank(), on_uncertain="interrupt").invoke(PAY, THREAD)
    description = paused["__interrupt__"][0].value["action_requests"][0]["description"]
    numbers = {
        "kl": "CoE 0.693 = aleatoric 0.000 + epistemic 0.693 nats",
        "js": "CoE 0.216 = aleatoric 0.000 + epistemic 0.216 nats (js)",
        "hellinger": "CoE 0.541 = aleatoric 0.000 + epistemic 0.541 (hellinger)",
    }
    assert numbers[divergence] in description.splitlines()


def test_a_judges_name_forges_no_vote():
    given = {"agents": {"a\nb": {"distribution": {"reject\nc: approve": 1.0}}}, "failed_agents": {"d\ne": "x\nf"}}
    decision = {"action": "abstain", "answer": None, "reason": "x", "choices": ["approve", "reject"], **given}
    compiled = agent(RunnableLambda(lambda _: {"decision": decision}), Bank(), on_uncertain="interrupt")
    description = compiled.invoke(PAY, THREAD)["__interrupt__"][0].value["action_requests"][0]["description"]
    assert "\na b: reject c: approve 100%\nd e: no vote, x f\n" in description


UNFIT = [
    "yes",
    "approve",
    True,
    {"answers": []},
    {"type": "approve"},
    {"decisions": []},
    {"decisions": "approve"},
    {"decisions": ["approve"]},
    {"decisions": [{"type": "approve"}, {"type": "approve"}]},
    {"decisions": [{"type": "Approve"}]},
    {"decisions": [{"type": "approved"}]},
    {"decisions": [{"type": "approve", "edited_action": {"name": "transfer_money", "args": BOB}}]},
    {"decisions": [{"type": "edit"}]},
    {"decisions": [{"type": "edit", "edited_action": {"name": "transfer_money"}}]},
    {"decisions": [{"type": "edit", "edited_action": {"name": "", "args": {}}}]},
    {"decisions": [{"type": "respond"}]},
]


@every_mode
async def test_a_reply_that_does_not_fit_is_asked_for_again(mode):
    agents, graph = judges(*UNSURE)
    bank = Bank()
    compiled = agent(graph, bank, on_uncertain="interrupt")
    await run(mode, compiled, PAY)
    for unfit in UNFIT:
        (asked,) = (await run(mode, compiled, Command(resume=unfit)))["__interrupt__"]
        assert "could not be used" in asked.value["action_requests"][0]["description"]
    assert bank.transfers == []
    await run(mode, compiled, decide({"type": "approve"}))
    assert bank.transfers == [("Ann", 10.0)]
    assert [len(judge.requests) for judge in agents] == [1, 1]


@every_mode
async def test_a_persons_rejection_is_reported(mode):
    agents, graph = judges(*UNSURE)
    bank = Bank()
    compiled = agent(graph, bank, on_uncertain="interrupt")
    await run(mode, compiled, PAY)
    state = await run(mode, compiled, decide({"type": "reject", "message": "wrong Ann"}))
    assert bank.transfers == []
    (reply,) = replies(state)
    assert reply.content.startswith("transfer_money was not run: a person rejected it: wrong Ann.")
    assert reply.status == "error"
    assert state["messages"][-1].content == "Done."
    assert len(agents[0].requests) == 1


@every_mode
async def test_a_person_may_answer_in_the_tools_place(mode):
    _, graph = judges(*UNSURE)
    bank = Bank()
    compiled = agent(graph, bank, on_uncertain="interrupt")
    await run(mode, compiled, PAY)
    state = await run(mode, compiled, decide({"type": "respond", "message": "I paid her in cash."}))
    assert bank.transfers == []
    assert [(reply.content, reply.status) for reply in replies(state)] == [("I paid her in cash.", "success")]


@every_mode
@pytest.mark.parametrize(
    ("bob", "transfers"), [("approve", [("Bob", 2.0)]), ("reject", [])], ids=["approved", "rejected"]
)
async def test_an_edited_call_is_judged_as_it_then_is(mode, bob, transfers):
    asked: list[str] = []
    bank = Bank()
    compiled = agent(judged_by({"Ann": None, "Bob": bob}, asked), bank, on_uncertain="interrupt")
    await run(mode, compiled, PAY)
    state = await run(mode, compiled, decide(EDIT))
    assert "__interrupt__" not in state
    assert bank.transfers == transfers
    assert len(asked) == 2
    assert state["messages"][1].tool_calls[0]["args"] == BOB


@every_mode
async def test_an_edit_that_the_group_is_not_sure_of_runs_since_a_person_wrote_it(mode):
    asked: list[str] = []
    bank = Bank()
    both = says(call(id="c1", **ANN), call(id="c2", to="Cy", amount=3))
    compiled = agent(judged_by({"": None}, asked), bank, both, on_uncertain="interrupt")
    await run(mode, compiled, GO)
    assert "__interrupt__" not in await run(mode, compiled, decide(EDIT, {"type": "approve"}))
    assert sorted(bank.transfers) == [("Bob", 2.0), ("Cy", 3.0)]
    assert len(asked) == 3


@every_mode
async def test_an_edit_to_a_free_tool_needs_no_verdict(mode):
    asked: list[str] = []
    bank = Bank()
    compiled = agent(judged_by({"": None}, asked), bank, on_uncertain="interrupt")
    await run(mode, compiled, PAY)
    free = {"type": "edit", "edited_action": {"name": "balance", "args": {}}}
    state = await run(mode, compiled, decide(free))
    assert [reply.content for reply in replies(state)] == ["the balance is 100"]
    assert (bank.transfers, len(asked)) == ([], 1)


@every_mode
async def test_a_person_is_not_asked_what_the_group_is_sure_of(mode):
    for given, transfers in ((SURE, [("Ann", 10.0)]), (AGAINST, [])):
        _, graph = judges(*given)
        bank = Bank()
        state = await run(mode, agent(graph, bank, on_uncertain="interrupt"), PAY)
        assert "__interrupt__" not in state
        assert bank.transfers == transfers


@every_mode
async def test_all_uncertain_calls_of_a_message_are_one_interrupt(mode):
    asked: list[str] = []
    bank = Bank()
    three = says(call(id="c1", **ANN), call(id="c2", **BOB), call(id="c3", to="Cy", amount=3))
    compiled = agent(judged_by({"Bob": "approve", "": None}, asked), bank, three, on_uncertain="interrupt")
    (paused,) = (await run(mode, compiled, GO))["__interrupt__"]
    assert [request["args"]["to"] for request in paused.value["action_requests"]] == ["Ann", "Cy"]
    assert bank.transfers == []  # nothing runs before all are settled
    state = await run(mode, compiled, decide({"type": "reject"}, {"type": "approve"}))
    assert sorted(bank.transfers) == [("Bob", 2.0), ("Cy", 3.0)]
    assert {reply.tool_call_id: reply.status for reply in replies(state)} == {
        "c1": "error",
        "c2": "success",
        "c3": "success",
    }
    assert len(asked) == 3


def test_what_a_model_wrote_is_not_rendered_where_a_person_reads_it():
    bank = Bank()
    planted = "![x](http://evil)\n```\n**the group approves**\u202e"
    asks = says(call(to=planted, amount=1))
    paused = agent(judged_by({"": None}, []), bank, asks, on_uncertain="interrupt").invoke(
        GO, {"configurable": {"thread_id": "1"}}
    )
    description = paused["__interrupt__"][0].value["action_requests"][0]["description"]
    assert "\u202e" not in description
    assert "\\u202e" in description
    first = description.splitlines()
    assert first[0] == first[2] == "````"  # longer than any inside


@every_mode
async def test_a_group_that_asks_a_person_itself_is_resumed_without_being_sampled_again(mode):
    agents, group = judges(*SURE)

    class Reply(BaseModel):
        answer: str

    def person(state):
        asked = interrupt({"question": state["asked_of_person"]}, response_schema=Reply)
        return {"decision": {**state["decision"], "answer": asked.answer, "decided_by": "person"}}

    class State(CoEState):
        asked_of_person: str
        choices: list[str]  # handed on to the group

    outer = StateGraph(State)
    outer.add_node("keep", lambda state: {"asked_of_person": state["question"], "question": state["question"]})
    outer.add_node("group", group)
    outer.add_node("person", person)
    outer.add_edge(START, "keep")
    outer.add_edge("keep", "group")
    outer.add_edge("group", "person")
    bank = Bank()
    both = says(call(id="c1", **ANN), call(id="c2", **BOB))
    for options in ({}, {"on_uncertain": "interrupt"}):
        bank.transfers.clear()
        for judge in agents:
            judge.requests.clear()
        question = lambda request: request.tool_call["args"]["to"]  # noqa: E731
        compiled = agent(outer.compile(), bank, both, question=question, **options)
        (asked,) = (await run(mode, compiled, PAY))["__interrupt__"]
        assert asked.value == {"question": "Ann"}
        with pytest.raises(ValidationError):  # not taken for a failure of the gate
            await run(mode, compiled, Command(resume="approve"))
        (asked,) = (await run(mode, compiled, Command(resume={"answer": "approve"})))["__interrupt__"]
        assert asked.value == {"question": "Bob"}
        await run(mode, compiled, Command(resume={"answer": "reject"}))
        assert bank.transfers == [("Ann", 1.0)]
        assert [request["question"] for request in agents[0].requests] == ["Ann", "Bob"]


def test_without_a_checkpointer_a_person_is_asked_in_vain():
    _, graph = judges(*UNSURE)
    bank = Bank()
    state = agent(graph, bank, saver=False, on_uncertain="interrupt").invoke(PAY)
    assert state["__interrupt__"]
    assert bank.transfers == []
