import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from coe_agents import ThresholdPolicy, create_coe_graph, create_coe_tool
from coe_agents.clustering import NormalizedMatch
from coe_agents.errors import CoEError
from coe_agents.testing.driver import ScriptedDriver
from tests.doubles import ScriptedAgent

AGREED, SPLIT = (["Paris"], ["Paris."]), (["Paris"], ["Lyon"])
WITHHELD = (
    'The group withholds an answer: one of two agents says "Lyon", one says "Paris": a tie; '
    "not confident enough: CoE 0.693 (aleatoric 0.000 within models, epistemic 0.693 between models) exceeds 0.5 nats."
)
CALL = {"name": "ask_the_group", "args": {"question": "Capital of France?"}, "id": "c1", "type": "tool_call"}


def graph(*replies):
    agents = [ScriptedAgent(f"a{place}", said) for place, said in enumerate(replies)]
    return create_coe_graph(agents, clusterer=NormalizedMatch(), policy=ThresholdPolicy(0.5))


def tool(*replies, **options):
    return create_coe_tool(graph(*replies).compile(), **options)


@pytest.mark.parametrize(
    ("replies", "text", "action"), [(AGREED, "Paris", "answer"), (SPLIT, WITHHELD, "abstain")], ids=["agreed", "split"]
)
async def test_it_returns_the_answer_or_why_there_is_none(replies, text, action):
    asked = tool(*replies)
    assert asked.invoke({"question": "Q?"}) == await asked.ainvoke({"question": "Q?"}) == text
    for message in (asked.invoke(CALL), await asked.ainvoke(CALL)):
        assert (message.content, message.artifact["action"], message.tool_call_id) == (text, action, "c1")
        assert message.artifact["coe"] is not None


def test_an_answer_that_was_not_decided_for_is_not_given():
    decision = {"action": "abstain", "answer": "Paris", "reason": "as told"}
    asked = create_coe_tool(RunnableLambda(lambda _: {"decision": decision}))
    assert asked.invoke({"question": "Q?"}) == "The group withholds an answer: as told."


def test_its_schema_has_a_question_only():
    schema = tool(*AGREED, description="Mine.").tool_call_schema.model_json_schema()
    assert (list(schema["properties"]), schema["required"]) == (["question"], ["question"])
    assert tool(*AGREED, name="jury", description="Mine.").name == "jury"
    assert tool(*AGREED, description="Mine.").description == "Mine."
    assert "not, and why" in tool(*AGREED).description


async def test_in_an_agent():
    driver = ScriptedDriver(script=[AIMessage("", tool_calls=[CALL]), AIMessage("Paris it is.")])
    agent = create_agent(driver, [tool(*AGREED)], checkpointer=InMemorySaver())
    given, thread = {"messages": [("user", "Capital of France?")]}, {"configurable": {"thread_id": "1"}}
    state = await agent.ainvoke(given, thread)
    assert [message.text for message in state["messages"]][2:] == ["Paris", "Paris it is."]
    assert agent.get_state(thread).values["messages"][2].artifact["regime"] == "consensus"


def test_a_question_too_long_is_the_calling_models_to_correct():
    agents = [ScriptedAgent("a", ["Paris"])]
    short = create_coe_graph(agents, clusterer=NormalizedMatch(), policy=ThresholdPolicy(0.5), max_question_chars=10)
    asked = create_coe_tool(short.compile())
    driver = ScriptedDriver(script=[AIMessage("", tool_calls=[CALL]), AIMessage("Oh.")])
    state = create_agent(driver, [asked]).invoke({"messages": [("user", "Go.")]})
    assert state["messages"][2].status == "error"
    assert 'at most 10 characters ("max_question_chars" of the graph); got 18' in state["messages"][2].content
    assert state["messages"][-1].text == "Oh."
    assert agents[0].requests == []


async def test_a_group_that_asks_a_person():
    class State(MessagesState):
        question: str
        decision: dict

    def person(state):
        return {"decision": {"action": "answer", "answer": interrupt(state["question"]), "reason": "a person"}}

    builder = StateGraph(State)
    builder.add_node("person", person)
    builder.add_edge(START, "person")
    asked = create_coe_tool(builder.compile())
    with pytest.raises(CoEError, match="no decision"):
        asked.invoke({"question": "Q?"})
    driver = ScriptedDriver(script=[AIMessage("", tool_calls=[CALL]), AIMessage("Done.")])
    agent, thread = create_agent(driver, [asked], checkpointer=InMemorySaver()), {"configurable": {"thread_id": "1"}}

    paused = await agent.ainvoke({"messages": [("user", "Go.")]}, thread)
    assert paused["__interrupt__"][0].value == "Capital of France?"
    assert (await agent.ainvoke(Command(resume="Paris"), thread))["messages"][2].content == "Paris"


def test_graphs_that_do_not_fit():
    with pytest.raises(TypeError, match="Compile it"):
        create_coe_tool(graph(*AGREED))
    with pytest.raises(ValueError, match="no checkpointer of its own"):
        create_coe_tool(graph(*AGREED).compile(checkpointer=InMemorySaver()))
