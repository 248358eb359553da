from dataclasses import dataclass, field

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import BaseModel, Field

from coe_agents import CoEMiddleware
from coe_agents.prompts import MAX_REVIEWED
from coe_agents.testing.driver import ScriptedDriver
from tests.middleware.agents import (
    AGAINST,
    MODES,
    PAY,
    SURE,
    THREAD,
    UNSURE,
    Bank,
    agent,
    call,
    judges,
    run,
    says,
)

every_mode = pytest.mark.parametrize("mode", MODES)


def talker(graph, said="Paris.", **options):
    gate = CoEMiddleware(graph, tools=[], final_answer=True)
    return create_agent(ScriptedDriver(script=[AIMessage(said)]), middleware=[gate], **options)


ASKED = {"messages": [("user", "Capital of France?")]}


@every_mode
async def test_an_approved_answer_goes_out(mode):
    (first, _), graph = judges(*SURE)
    state = await run(mode, talker(graph, checkpointer=InMemorySaver()), ASKED)
    assert [message.text for message in state["messages"]] == ["Capital of France?", "Paris."]
    assert "<user>Capital of France?</user>\n<answer>Paris.</answer>" in first.requests[0]["question"]


@every_mode
@pytest.mark.parametrize("said", [UNSURE, AGAINST, None], ids=["unsure", "against", "failing"])
async def test_another_answer_is_replaced(mode, said):
    graph = judges(*said)[1] if said else RunnableLambda(lambda _: 1 / 0)
    compiled = talker(graph, checkpointer=InMemorySaver())
    state = await run(mode, compiled, ASKED)
    assert len(state["messages"]) == 2
    assert state["messages"][-1].text.startswith("I withhold my answer: the group ")
    assert "Paris" not in str(state["messages"])
    assert compiled.get_state(THREAD).next == ()


@every_mode
@pytest.mark.parametrize(("said", "sent_back"), [(SURE, 1), (UNSURE, 0)], ids=["sure", "unsure"])
async def test_nothing_goes_on_with_an_answer_that_was_withheld(mode, said, sent_back):
    reached = []

    class Reader(AgentMiddleware):
        def after_model(self, state, runtime):
            reached.append(state["messages"][-1].text)

    _, graph = judges(*said)
    gate = CoEMiddleware(graph, tools=[], final_answer=True)
    driver = ScriptedDriver(script=[AIMessage("Paris.")])
    await run(mode, create_agent(driver, middleware=[Reader(), gate]), ASKED)
    assert len(reached) == sent_back


def test_an_answer_too_long_to_be_shown_is_withheld():
    agents, graph = judges(*SURE)
    state = talker(graph, "x" * (MAX_REVIEWED + 1)).invoke(ASKED)
    assert state["messages"][-1].text.startswith("I withhold my answer: ")
    assert agents[0].requests == []


class City(BaseModel):
    name: str


@every_mode
@pytest.mark.parametrize(("said", "given"), [(SURE, City(name="Paris")), (UNSURE, None)], ids=["sure", "unsure"])
async def test_a_structured_answer_is_gated(mode, said, given):
    (first, _), graph = judges(*said)
    driver = ScriptedDriver(script=[says(call("City", name="Paris"), text="")])
    gate = CoEMiddleware(graph, tools=[], final_answer=True)
    state = await run(mode, create_agent(driver, middleware=[gate], response_format=City), ASKED)
    assert state["structured_response"] == given
    assert "City(name='Paris')" in first.requests[0]["question"]
    assert ("Paris" in str(state["messages"])) == (given is not None)


@every_mode
async def test_both_gates_in_one_agent(mode):
    (first, _), graph = judges(*SURE)
    bank = Bank()
    state = await run(mode, agent(graph, bank, final_answer=True), PAY)
    assert bank.transfers == [("Ann", 10.0)]
    assert state["messages"][-1].text == "Done."
    assert len(first.requests) == 2


@every_mode
async def test_a_call_that_something_else_answered_is_no_final_answer(mode):
    class Answering(AgentMiddleware):
        def after_model(self, state, runtime):
            calls = state["messages"][-1].tool_calls
            return {"messages": [ToolMessage("enough", tool_call_id=one["id"]) for one in calls]}

    (first, _), graph = judges(*SURE)
    bank = Bank()
    gates = [CoEMiddleware(graph, tools=["transfer_money"], final_answer=True), Answering()]
    state = await run(mode, agent(graph, bank, middleware=gates), PAY)
    assert bank.transfers == []
    assert state["messages"][-1].text == "Done."
    assert ["<answer>Done.</answer>" in request["question"] for request in first.requests] == [True]


IMAGE = {"type": "image", "base64": "AAAA", "mime_type": "image/png"}


@every_mode
@pytest.mark.parametrize(
    "block", [IMAGE, {"type": "image_url", "image_url": {"url": "http://x"}}, {"type": "new_kind"}]
)
async def test_what_the_group_is_not_shown_whole_is_not_approved(mode, block):
    (first, _), graph = judges(*SURE)
    said = AIMessage([{"type": "text", "text": "Paris."}, block])
    gate = CoEMiddleware(graph, tools=[], final_answer=True)
    state = await run(mode, create_agent(ScriptedDriver(script=[said]), middleware=[gate]), ASKED)
    assert f'the answer holds a block of type "{block["type"]}"' in state["messages"][-1].text
    assert "Paris" not in str(state["messages"])
    assert first.requests == []


@pytest.mark.parametrize(
    "extra",
    [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Lyon, rather"}]},
        {"type": "thinking", "thinking": "Lyon, rather"},
        {"type": "text", "text": "It is.", "annotations": [{"type": "citation", "title": "Lyon, rather"}]},
    ],
)
def test_all_that_the_answer_holds_is_shown(extra):
    (first, _), graph = judges(*SURE)
    said = AIMessage([{"type": "text", "text": "Paris."}, extra])
    gate = CoEMiddleware(graph, tools=[], final_answer=True)
    state = create_agent(ScriptedDriver(script=[said]), middleware=[gate]).invoke(ASKED)
    assert state["messages"][-1].content == said.content
    assert "Lyon, rather" in first.requests[0]["question"]


@every_mode
@pytest.mark.parametrize(
    "extra", [{"audio": {"data": "AAAA", "transcript": "Lyon"}}, {"refusal": "No."}, {"new_kind": "Lyon"}]
)
async def test_what_stands_beside_the_content_is_not_approved_unseen(mode, extra):
    (first, _), graph = judges(*SURE)
    said = AIMessage("Paris.", additional_kwargs=extra)
    gate = CoEMiddleware(graph, tools=[], final_answer=True)
    state = await run(mode, create_agent(ScriptedDriver(script=[said]), middleware=[gate]), ASKED)
    (kind,) = extra
    assert f'the answer holds "{kind}" beside its content' in state["messages"][-1].text
    assert "Paris" not in str(state["messages"])
    assert first.requests == []


@pytest.mark.parametrize("extra", [{"refusal": None}, {"audio": None, "tool_calls": []}, {}])
def test_what_is_empty_beside_the_content_is_nothing(extra):
    _, graph = judges(*SURE)
    gate = CoEMiddleware(graph, tools=[], final_answer=True)
    said = AIMessage("Paris.", additional_kwargs=extra)
    state = create_agent(ScriptedDriver(script=[said]), middleware=[gate]).invoke(ASKED)
    assert state["messages"][-1].text == "Paris."


def test_reasoning_beside_the_content_is_shown():
    (first, _), graph = judges(*SURE)
    gate = CoEMiddleware(graph, tools=[], final_answer=True)
    said = AIMessage("Paris.", additional_kwargs={"reasoning_content": "Lyon, rather"})
    state = create_agent(ScriptedDriver(script=[said]), middleware=[gate]).invoke(ASKED)
    assert state["messages"][-1].text == "Paris."
    assert "Paris." in first.requests[0]["question"]
    assert "Lyon, rather" in first.requests[0]["question"]


def test_an_answer_that_gets_a_voice_after_its_review_is_withheld():
    class Speaking(AgentMiddleware):
        def after_model(self, state, runtime):
            audio = {"audio": {"data": "AAAA"}}
            return {"messages": [state["messages"][-1].model_copy(update={"additional_kwargs": audio})]}

    _, graph = judges(*SURE)
    gate = CoEMiddleware(graph, tools=[], final_answer=True)
    driver = ScriptedDriver(script=[AIMessage("Paris.")])
    state = create_agent(driver, middleware=[Speaking(), gate]).invoke(ASKED)
    assert "Paris" not in str(state["messages"])


def test_the_group_is_told_of_what_it_does_not_see_in_the_conversation():
    (first, _), graph = judges(*SURE)
    asked = [{"role": "user", "content": [{"type": "text", "text": "What is this?"}, IMAGE]}]
    talker(graph).invoke({"messages": asked})
    assert '<user>What is this? (a block of type "image": not shown)</user>' in first.requests[0]["question"]


@every_mode
@pytest.mark.parametrize("final_answer", [True, False])
async def test_a_result_that_ends_the_run_is_not_approved(mode, final_answer):
    (first, _), graph = judges(*SURE)

    @tool(return_direct=True)
    def lookup() -> str:
        """Looks it up."""
        return "SECRET"

    driver = ScriptedDriver(script=[says(call("lookup", to="x"), text="")])
    gate = CoEMiddleware(graph, tools=[] if final_answer else ["lookup"], final_answer=final_answer)
    compiled = create_agent(driver, [lookup], middleware=[gate], checkpointer=InMemorySaver())
    state = await run(mode, compiled, ASKED)
    assert ("SECRET" in str(state["messages"])) is not final_answer
    if final_answer:
        assert "the run ends with the result of lookup" in state["messages"][-1].text
        assert first.requests == []


@every_mode
@pytest.mark.parametrize(("said", "text"), [(SURE, "Lyon."), (AGAINST, "I withhold")])
async def test_an_answer_that_was_changed_after_its_review_is_reviewed_as_it_is_then(mode, said, text):
    class Changing(AgentMiddleware):
        def after_model(self, state, runtime):
            return {"messages": [AIMessage("Lyon.", id=state["messages"][-1].id)]}

    _, graph = judges(*SURE)
    _, later = judges(*said)
    asked: list[str] = []

    def group(given):
        asked.append(given["question"])
        return (graph if "Paris" in given["question"] else later).invoke(given)

    gate = CoEMiddleware(RunnableLambda(group), tools=[], final_answer=True)
    driver = ScriptedDriver(script=[AIMessage("Paris.")])
    state = await run(mode, create_agent(driver, middleware=[Changing(), gate]), ASKED)
    assert state["messages"][-1].text.startswith(text)
    assert ["<answer>Lyon.</answer>" in question for question in asked] == [False, True]


def test_an_approved_answer_is_reviewed_once_in_each_turn():
    (first, _), graph = judges(*SURE)
    compiled = talker(graph, checkpointer=InMemorySaver())
    for turn in (1, 2):
        state = compiled.invoke(ASKED, THREAD)
        assert state["messages"][-1].text == "Paris."
        assert len(first.requests) == turn


class Discreet(BaseModel):
    name: str
    hidden: str = Field(repr=False)


def test_a_structured_answer_is_shown_whole():
    (first, _), graph = judges(*SURE)
    driver = ScriptedDriver(script=[says(call("Discreet", name="Paris", hidden="Lyon"), text="")])
    gate = CoEMiddleware(graph, tools=[], final_answer=True)
    create_agent(driver, middleware=[gate], response_format=Discreet).invoke(ASKED)
    assert '"hidden": "Lyon"' in first.requests[0]["question"]


@dataclass
class Part:
    hidden: str = field(default="", repr=False)


class Secretive(BaseModel):
    name: str
    hidden: str = Field("", repr=False, exclude=True)
    part: Part = Part()


@pytest.mark.parametrize("args", [{"hidden": "Lyon"}, {"part": {"hidden": "Lyon"}}])
def test_a_field_that_is_neither_printed_nor_dumped_is_shown(args):
    (first, _), graph = judges(*SURE)
    driver = ScriptedDriver(script=[says(call("Secretive", name="Paris", **args), text="")])
    gate = CoEMiddleware(graph, tools=[], final_answer=True)
    state = create_agent(driver, middleware=[gate], response_format=Secretive).invoke(ASKED)
    assert isinstance(state["structured_response"], Secretive)
    assert '"hidden": "Lyon"' in first.requests[0]["question"]


def test_a_structured_answer_whose_hidden_field_changes_after_the_review_is_reviewed_again():
    class Changing(AgentMiddleware):
        def after_agent(self, state, runtime):
            return {"structured_response": Discreet(name="Paris", hidden="evil")}

    graph = RunnableLambda(
        lambda given: {
            "decision": {
                "action": "answer",
                "answer": "reject" if "evil" in given["question"] else "approve",
                "reason": "x",
                "choices": given["choices"],
            }
        }
    )
    driver = ScriptedDriver(script=[says(call("Discreet", name="Paris", hidden="Lyon"), text="")])
    gate = CoEMiddleware(graph, tools=[], final_answer=True)
    # the last to be listed is the first to run after the agent
    state = create_agent(driver, middleware=[gate, Changing()], response_format=Discreet).invoke(ASKED)
    assert state["structured_response"] is None


@every_mode
@pytest.mark.parametrize(
    ("beside", "shown"),
    [
        ("Send it all to Eve.", True),
        ([{"type": "text", "text": "Send it all to Eve."}], True),
        ([{"type": "image", "url": "data:,Eve"}], False),
    ],
)
async def test_what_the_model_says_beside_a_structured_answer_is_judged_with_it(mode, beside, shown):
    asked: list[str] = []
    driver = ScriptedDriver(script=[AIMessage(beside, tool_calls=[call("City", id="s1", name="Paris")])])
    gate = CoEMiddleware(ruling("approve", "reject", asked), tools=[], final_answer=True)
    compiled = create_agent(driver, middleware=[gate], response_format=City, checkpointer=InMemorySaver())
    state = await run(mode, compiled, ASKED)
    assert "Eve" not in str(state["messages"])
    assert state["structured_response"] is None
    assert ["Send it all to Eve." in question for question in asked] == [True] * shown


def structured(*beside, said=SURE, gated=("transfer_money",), tools=None, **options):
    """An agent that gives a structured answer beside calls, the judges, and the bank."""
    agents, graph = judges(*said) if isinstance(said, tuple) else ([], said)
    bank = Bank()
    driver = ScriptedDriver(script=[says(call("City", id="s1", name="Paris"), *beside, text="It is Paris.")])
    gate = CoEMiddleware(graph, tools=gated, final_answer=True, **options)
    compiled = create_agent(
        driver, tools or bank.tools, middleware=[gate], response_format=City, checkpointer=InMemorySaver()
    )
    return compiled, agents, bank


def ruling(calls, answer, asked):
    """A group that decides on calls and on answers."""

    def judge(given):
        asked.append(given["question"])
        reply = answer if "<answer>" in given["question"] else calls
        action = "abstain" if reply is None else "answer"
        return {"decision": {"action": action, "answer": reply, "reason": "x", "choices": given["choices"]}}

    return RunnableLambda(judge)


@every_mode
async def test_a_structured_answer_beside_a_gated_call_goes_out_if_both_are_approved(mode):
    compiled, (first, _), bank = structured(call())
    state = await run(mode, compiled, PAY)
    assert bank.transfers == [("Ann", 10.0)]
    assert state["structured_response"] == City(name="Paris")
    assert "withhold" not in str(state["messages"])
    about_call, about_answer = (request["question"] for request in first.requests)
    assert "<arguments>" in about_call
    assert "<answer>City(name='Paris')" in about_answer
    assert '<call status="run">"transfer_money" {"to": "Ann", "amount": 10}</call>' in about_answer
    assert "<result>sent 10.0 to Ann</result>" in about_answer


@every_mode
async def test_a_structured_answer_beside_a_free_call_goes_out_if_approved(mode):
    compiled, (first, _), _ = structured({**call("balance", id="b1"), "args": {}}, gated=())
    state = await run(mode, compiled, PAY)
    assert state["structured_response"] == City(name="Paris")
    assert len(first.requests) == 1


@every_mode
@pytest.mark.parametrize("answer", ["reject", None])
async def test_a_structured_answer_that_is_not_approved_is_withheld_and_the_call_that_ran_is_kept(mode, answer):
    compiled, _, bank = structured(call(), said=ruling("approve", answer, []))
    state = await run(mode, compiled, PAY)
    assert bank.transfers == [("Ann", 10.0)]
    assert state["structured_response"] is None
    assert "Paris" not in str(state["messages"])
    assert "sent 10" not in str(state["messages"])
    assert state["messages"][-1].text.startswith("I withhold my answer: the group is ")
    asked, made, reply, _ = state["messages"]
    assert asked.text == "Send 10 to Ann."
    assert [(one["name"], one["id"]) for one in made.tool_calls] == [("transfer_money", "c1")]
    assert (reply.tool_call_id, reply.status, reply.text) == ("c1", "success", "The result is withheld.")
    assert compiled.get_state(THREAD).next == ()


@every_mode
async def test_a_structured_answer_beside_a_blocked_call_is_judged_with_it(mode):
    asked: list[str] = []
    compiled, _, bank = structured(call(), said=ruling("reject", "approve", asked))
    state = await run(mode, compiled, PAY)
    assert bank.transfers == []
    assert state["structured_response"] == City(name="Paris")
    assert '<call status="blocked">"transfer_money"' in asked[1]


@every_mode
async def test_a_person_decides_on_a_call_beside_a_structured_answer(mode):
    asked: list[str] = []
    compiled, _, bank = structured(call(), said=ruling(None, "approve", asked), on_uncertain="interrupt")
    paused = await run(mode, compiled, PAY)
    assert [one["name"] for one in paused["__interrupt__"][0].value["action_requests"]] == ["transfer_money"]
    state = await run(mode, compiled, Command(resume={"decisions": [{"type": "approve"}]}))
    assert bank.transfers == [("Ann", 10.0)]
    assert dict(state["structured_response"]) == {"name": "Paris"}  # a checkpointer may keep plain data of it
    assert len(asked) == 2


@every_mode
async def test_a_structured_answer_beside_a_result_that_is_too_long_is_withheld(mode):
    @tool
    def lookup() -> str:
        """Looks it up."""
        return "SECRET" * MAX_REVIEWED

    beside = {**call("lookup", id="l1"), "args": {}}
    compiled, (first, _), _ = structured(beside, gated=(), tools=[lookup])
    state = await run(mode, compiled, PAY)
    assert state["structured_response"] is None
    assert "SECRET" not in str(state["messages"])
    assert first.requests == []


def test_the_conversation_after_a_withheld_answer_goes_on():
    compiled, _, bank = structured(call(), said=ruling("approve", "reject", []))
    compiled.invoke(PAY, THREAD)
    state = compiled.invoke({"messages": [("user", "And now?")]}, THREAD)
    assert len(bank.transfers) == 2
    assert state["messages"][-1].text.startswith("I withhold my answer")


@every_mode
@pytest.mark.parametrize("second", ["reject", "approve"])
async def test_of_two_gates_on_the_answer_both_must_approve(mode, second):
    for verdicts in (("approve", second), (second, "approve")):
        gates = [
            CoEMiddleware(ruling("approve", verdict, []), tools=[], final_answer=True, name=name)
            for name, verdict in zip(("one", "two"), verdicts, strict=True)
        ]
        for beside in ([], [{**call("balance", id="b1"), "args": {}}]):
            driver = ScriptedDriver(script=[says(call("City", id="s1", name="Paris"), *beside, text="")])
            compiled = create_agent(driver, Bank().tools, middleware=gates, response_format=City)
            state = await run(mode, compiled, ASKED)
            assert state["structured_response"] == (City(name="Paris") if second == "approve" else None)
            n_withheld = sum("I withhold" in message.text for message in state["messages"])
            assert n_withheld == (0 if second == "approve" else 1)


@every_mode
async def test_a_structured_answer_beside_a_result_with_an_image_is_withheld(mode):
    @tool
    def lookup() -> list:
        """Looks it up."""
        return [{"type": "text", "text": "SECRET"}, IMAGE]

    beside = {**call("lookup", id="l1"), "args": {}}
    compiled, (first, _), _ = structured(beside, gated=(), tools=[lookup])
    state = await run(mode, compiled, PAY)
    assert 'a result beside the answer holds a block of type "image"' in state["messages"][-1].text
    assert "SECRET" not in str(state["messages"])
    assert first.requests == []
