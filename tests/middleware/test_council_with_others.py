"""A council beside other middleware: LangChain's, and our own gate."""

import pytest
from langchain.agents.middleware import (
    HumanInTheLoopMiddleware,
    ModelCallLimitMiddleware,
    ModelRetryMiddleware,
    TodoListMiddleware,
    ToolCallLimitMiddleware,
)
from langchain.agents.middleware.types import AgentMiddleware
from langchain.agents.structured_output import AutoStrategy, ProviderStrategy, ToolStrategy
from langchain_core.messages import AIMessage
from langgraph.types import Command
from pydantic import BaseModel

from coe_agents import CoEMiddleware
from tests.middleware.agents import ANN, BOB, MODES, PAY, SURE, THREAD, Bank, call, judges, replies, run, says
from tests.middleware.council import council_agent, members

every_mode = pytest.mark.parametrize("mode", MODES)
DONE = AIMessage("Done.")
AGREE = [[call(**ANN)], "Done."]
AGAINST = [[call(**BOB)], "Done."]


def decide(*decisions):
    return Command(resume={"decisions": list(decisions)})


def edit(**args):
    return {"type": "edit", "edited_action": {"name": "transfer_money", "args": args}}


@every_mode
async def test_people_are_asked_only_about_what_the_council_lets_pass(mode):
    bank, person = Bank(), HumanInTheLoopMiddleware({"transfer_money": True})
    agent = council_agent(members(AGAINST), bank, says(call(**ANN)), DONE, before=[person])
    state = await run(mode, agent, PAY)
    assert "__interrupt__" not in state
    assert bank.transfers == []
    agent = council_agent(members(AGREE), bank, says(call(**ANN)), DONE, before=[person])
    assert "__interrupt__" in await run(mode, agent, PAY)
    state = await run(mode, agent, decide({"type": "approve"}))
    assert bank.transfers == [("Ann", 1.0)]
    assert state["messages"][-1].text == "Done."


@every_mode
@pytest.mark.parametrize("trusts", [False, True])
async def test_a_persons_edit_of_a_call_that_was_vouched_for_runs_where_it_is_trusted(mode, trusts):
    bank, person = Bank(), HumanInTheLoopMiddleware({"transfer_money": True})
    agents, options = members(AGREE), {"trust_edits": True} if trusts else {}
    agent = council_agent(agents, bank, says(call(**ANN)), DONE, before=[person], **options)
    await run(mode, agent, PAY)
    state = await run(mode, agent, decide(edit(**BOB)))
    assert bank.transfers == ([("Bob", 2.0)] if trusts else [])
    assert ("to, amount changed" in replies(state)[0].text) != trusts


@every_mode
async def test_a_person_who_is_asked_at_each_call(mode):
    bank, person = Bank(), HumanInTheLoopMiddleware({"transfer_money": True}, interrupt_mode="per_call")
    for place, (decision, ran) in enumerate(
        [({"type": "approve"}, [("Ann", 1.0)]), (edit(**BOB), []), ({"type": "reject"}, [])]
    ):
        bank.transfers.clear()
        agent = council_agent(members(AGREE), bank, says(call(**ANN)), DONE, before=[person], trust_edits=True)
        thread = {"configurable": {"thread_id": str(place)}}
        paused = await run(mode, agent, PAY, thread)
        (asked,) = paused["__interrupt__"]
        await run(mode, agent, Command(resume={asked.id: decision}), thread)
        # an edit made there cannot be told from a change by other middleware, and does not run
        assert bank.transfers == ran


@every_mode
async def test_the_gate_judges_what_the_council_lets_pass(mode):
    _, graph = judges(*SURE)
    bank = Bank()
    gate = CoEMiddleware(graph, tools=["transfer_money"])
    await run(mode, council_agent(members(AGREE), bank, says(call(**ANN)), DONE, before=[gate]), PAY)
    assert bank.transfers == [("Ann", 1.0)]
    bank = Bank()
    judge, graph = judges(*SURE)
    gate = CoEMiddleware(graph, tools=["transfer_money"], final_answer=True)
    await run(mode, council_agent(members(AGAINST), bank, says(call(**ANN)), DONE, before=[gate]), PAY)
    assert bank.transfers == []
    assert len(judge[0].requests) == 1  # the final answer


@every_mode
async def test_the_gate_asks_people_and_the_council_does_not_ask_again(mode):
    _, graph = judges(["approve"], ["reject"])
    bank, agents = Bank(), members(AGREE)
    gate = CoEMiddleware(graph, tools=["transfer_money"], on_uncertain="interrupt")
    agent = council_agent(agents, bank, says(call(**ANN)), DONE, before=[gate])
    assert "__interrupt__" in await run(mode, agent, PAY)
    await run(mode, agent, decide({"type": "approve"}))
    assert bank.transfers == [("Ann", 1.0)]
    assert len(agents[0].requests) == 2


def test_both_ask_a_person_one_after_the_other():
    bank, person = Bank(), HumanInTheLoopMiddleware({"transfer_money": True})
    agent = council_agent(members(AGAINST), bank, says(call(**ANN)), DONE, before=[person], on_uncertain="interrupt")
    agent.invoke(PAY, THREAD)
    assert "__interrupt__" in agent.invoke(decide({"type": "approve"}), THREAD)
    assert bank.transfers == []
    agent.invoke(decide({"type": "approve"}), THREAD)
    assert bank.transfers == [("Ann", 1.0)]


@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
@pytest.mark.parametrize("on_uncertain", ["block", "interrupt"])
async def test_beside_langchains_other_middleware(mode, on_uncertain):
    bank = Bank()
    before = [
        TodoListMiddleware(),
        ModelCallLimitMiddleware(run_limit=5),
        ToolCallLimitMiddleware(run_limit=5),
        ModelRetryMiddleware(max_retries=1),
    ]
    script = [says(call(**ANN)), says(call(id="c2", **BOB)), DONE]
    agents = members([[call(**ANN)], [call(**ANN)], "Done."])
    agent = council_agent(agents, bank, *script, before=before, on_uncertain=on_uncertain, tools=["transfer_money"])
    state = await run(mode, agent, PAY)
    if on_uncertain == "interrupt":
        assert "__interrupt__" in state
        state = await run(mode, agent, decide({"type": "reject"}))
    assert bank.transfers == [("Ann", 1.0)]
    assert state["messages"][-1].text == "Done."


class Weather(BaseModel):
    """The weather."""

    sky: str


def weather(sky, id="w1"):
    return {"name": "Weather", "args": {"sky": sky}, "id": id}


@every_mode
@pytest.mark.parametrize("response_format", [ToolStrategy(Weather), AutoStrategy(Weather), Weather])
async def test_a_structured_answer_is_an_action(mode, response_format):
    agents = members([[weather("clear")]], [[weather("clear")]])
    agent = council_agent(agents, Bank(), says(weather("clear")), response_format=response_format)
    state = await run(mode, agent, PAY)
    assert state["structured_response"] == Weather(sky="clear")
    assert [tool["function"]["name"] for tool in agents[0].requests[0]["tools"]][-1] == "Weather"
    agents = members([[weather("grey")]], [[weather("grey")]])
    agent = council_agent(
        agents, Bank(), says(weather("clear")), says(weather("grey", "w2")), response_format=response_format
    )
    state = await run(mode, agent, PAY)
    assert state["structured_response"] == Weather(sky="grey")
    assert [message.type for message in state["messages"]] == ["human", "ai", "tool", "ai", "tool"]


@every_mode
async def test_a_structured_answer_that_is_always_withheld_ends_the_run(mode):
    agents = members([[weather("grey")]], [[weather("grey")]])
    for tools in (Bank().tools, []):
        bank = Bank()
        bank.tools = tools
        agent = council_agent(agents, bank, says(weather("clear")), response_format=ToolStrategy(Weather))
        state = await run(mode, agent, PAY)
        assert state.get("structured_response") is None
        assert state["messages"][-1].text.startswith("I will not answer this")


@every_mode
async def test_a_structured_answer_in_the_providers_own_way_is_a_text(mode):
    said = AIMessage('{"sky": "clear"}')
    agent = council_agent(members(["x"], ["y"]), Bank(), said, response_format=ProviderStrategy(Weather))
    assert (await run(mode, agent, PAY))["structured_response"] == Weather(sky="clear")
    agent = council_agent(members([[call(**ANN)]]), Bank(), said, response_format=ProviderStrategy(Weather))
    state = await run(mode, agent, PAY)
    assert state.get("structured_response") is None
    assert state["messages"][-1].text.startswith("I will not answer this")


@every_mode
async def test_only_the_structured_answer_is_judged(mode):
    agents = members([[weather("grey")]], [[weather("grey")]])
    script = [says(call("balance", id="b1")), says(weather("clear")), says(weather("grey", "w2"))]
    script[0].tool_calls[0]["args"] = {}
    options = {"response_format": ToolStrategy(Weather), "tools": ["Weather"]}
    state = await run(mode, council_agent(agents, Bank(), *script, **options), PAY)
    assert state["structured_response"] == Weather(sky="grey")
    assert len(agents[0].requests) == 2


class Changing(AgentMiddleware):
    """Middleware that changes the calls of a message after the council."""

    def __init__(self, change):
        super().__init__()
        self.change = change

    def after_model(self, state, runtime):
        message = state["messages"][-1]
        if not isinstance(message, AIMessage) or not message.tool_calls:
            return None
        return {"messages": [message.model_copy(update={"tool_calls": self.change(message.tool_calls)})]}


CHANGES = {
    "other arguments": lambda calls: [{**calls[0], "args": {"to": "Eve", "amount": 1000}}],
    "a call more": lambda calls: [*calls, {**calls[0], "id": "c9", "args": {"to": "Eve", "amount": 1000}}],
    "another id": lambda calls: [{**calls[0], "id": "c9", "args": {"to": "Eve", "amount": 1000}}],
}


@pytest.mark.parametrize("tools", [None, ["transfer_money"]])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_call_that_other_middleware_changed_does_not_run(change, tools):
    bank = Bank()
    agent = council_agent(members(AGREE), bank, says(call(**ANN)), DONE, before=[Changing(change)], tools=tools)
    state = agent.invoke(PAY, THREAD)
    assert "Eve" not in str(bank.transfers)
    assert any("has not vouched for this call" in reply.text for reply in replies(state))


def test_a_persons_edit_of_a_call_that_nobody_vouched_for_does_not_run():
    bank, person = Bank(), HumanInTheLoopMiddleware({"transfer_money": True})
    before = [person, Changing(CHANGES["a call more"])]
    agent = council_agent(members(AGREE), bank, says(call(**ANN)), DONE, before=before, trust_edits=True)
    agent.invoke(PAY, THREAD)
    agent.invoke(decide({"type": "approve"}, edit(**BOB)), THREAD)
    assert bank.transfers == [("Ann", 1.0)]


class Replaying(AgentMiddleware):
    """Middleware that repeats the model's first message without asking it, as a cache would."""

    def wrap_model_call(self, request, handler):
        if len(request.messages) == 1:
            self.first = handler(request)
            return self.first
        if len(request.messages) < 4:
            return AIMessage("", tool_calls=[call(**ANN)], id="again")
        return handler(request)


def test_a_vouched_call_runs_once():
    bank = Bank()
    agents = members([[call(**ANN)], "Done.", "Done."])
    agent = council_agent(agents, bank, says(call(**ANN)), DONE, before=[Replaying()])
    agent.invoke(PAY, THREAD)
    assert bank.transfers == [("Ann", 1.0)]
