import pytest
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from pydantic import BaseModel, ValidationError

from coe_agents.graph import CoEState
from tests.middleware.agents import (
    AGAINST,
    ANN,
    BOB,
    MODES,
    PAY,
    SURE,
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


@every_mode
async def test_a_person_is_asked_and_the_group_is_not_asked_again(mode):
    agents, graph = judges(*UNSURE)
    bank = Bank()
    compiled = agent(graph, bank, on_uncertain="interrupt")
    paused = await run(mode, compiled, PAY)
    (asked,) = paused["__interrupt__"]
    assert {key: asked.value[key] for key in ("type", "tool_call_id", "tool", "args")} == {
        "type": "coe_tool_approval",
        "tool_call_id": "c1",
        "tool": "transfer_money",
        "args": {"to": "Ann", "amount": 10},
    }
    assert asked.value["verdict"]["outcome"] == "uncertain"
    assert asked.value["verdict"]["epistemic"] == pytest.approx(0.693, abs=1e-3)
    assert bank.transfers == []
    assert [len(judge.requests) for judge in agents] == [1, 1]

    for unfit in ("yes", {"type": "approved"}, {"type": "approve", "args": {}}):
        with pytest.raises(ValidationError):
            await run(mode, compiled, Command(resume=unfit))
    assert bank.transfers == []

    state = await run(mode, compiled, Command(resume={"type": "approve"}))
    assert bank.transfers == [("Ann", 10.0)]
    assert state["messages"][-1].content == "Done."
    assert [len(judge.requests) for judge in agents] == [1, 1]


@every_mode
async def test_a_persons_rejection_is_told(mode):
    agents, graph = judges(*UNSURE)
    bank = Bank()
    compiled = agent(graph, bank, on_uncertain="interrupt")
    await run(mode, compiled, PAY)
    state = await run(mode, compiled, Command(resume={"type": "reject", "message": "wrong Ann"}))
    assert bank.transfers == []
    assert replies(state)[0].content.startswith("transfer_money was not run: a person rejected it: wrong Ann.")
    assert len(agents[0].requests) == 1


@every_mode
async def test_a_person_is_not_asked_what_the_group_is_sure_of(mode):
    for said, transfers in ((SURE, [("Ann", 10.0)]), (AGAINST, [])):
        _, graph = judges(*said)
        bank = Bank()
        state = await run(mode, agent(graph, bank, on_uncertain="interrupt"), PAY)
        assert "__interrupt__" not in state
        assert bank.transfers == transfers


@every_mode
async def test_parallel_calls_are_put_to_a_person_one_by_one(mode):
    asked: list[str] = []
    bank = Bank()
    both = says(call(id="c1", **ANN), call(id="c2", **BOB))
    compiled = agent(judged_by({"": None}, asked), bank, both, on_uncertain="interrupt")
    paused = await run(mode, compiled, {"messages": [("user", "Go.")]})
    by_name = {one.value["args"]["to"]: one.id for one in paused["__interrupt__"]}
    paused = await run(mode, compiled, Command(resume={by_name["Bob"]: {"type": "approve"}}))
    assert bank.transfers == [("Bob", 2.0)]
    await run(mode, compiled, Command(resume={by_name["Ann"]: {"type": "approve"}}))
    assert bank.transfers == [("Bob", 2.0), ("Ann", 1.0)]
    assert len(asked) == 2


@every_mode
async def test_what_ran_before_a_person_was_asked_does_not_run_again(mode):
    asked: list[str] = []
    bank = Bank()
    both = says(call(id="c1", **ANN), call(id="c2", **BOB))
    compiled = agent(judged_by({"Ann": "approve", "Bob": None}, asked), bank, both, on_uncertain="interrupt")
    (paused,) = (await run(mode, compiled, {"messages": [("user", "Go.")]}))["__interrupt__"]
    assert paused.value["args"] == BOB
    assert bank.transfers == [("Ann", 1.0)]
    await run(mode, compiled, Command(resume={"type": "reject"}))
    assert bank.transfers == [("Ann", 1.0)]
    assert len(asked) == 2


@every_mode
async def test_a_group_that_asks_a_person_itself_is_resumed_without_being_sampled_again(mode):
    agents, group = judges(*SURE)

    class Reply(BaseModel):
        answer: str

    def person(state):
        asked = interrupt({"question": state["asked_of_person"]}, response_schema=Reply)
        return {"decision": {**state["decision"], "answer": asked.answer}}

    class State(CoEState):
        asked_of_person: str

    outer = StateGraph(State)
    outer.add_node("keep", lambda state: {"asked_of_person": state["question"], "question": state["question"]})
    outer.add_node("group", group)
    outer.add_node("person", person)
    outer.add_edge(START, "keep")
    outer.add_edge("keep", "group")
    outer.add_edge("group", "person")
    bank = Bank()
    both = says(call(id="c1", **ANN), call(id="c2", **BOB))
    compiled = agent(outer.compile(), bank, both, question=lambda request: request.tool_call["args"]["to"])
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
