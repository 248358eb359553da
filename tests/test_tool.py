import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from coe_agents import create_coe_tool
from coe_agents.errors import CoEError
from coe_agents.testing.driver import ScriptedDriver
from tests.graph.groups import THREAD, around, graph, saved, saying

AGREED = ("Paris", "Paris.")
SPLIT = ("Paris", "Lyon")
CALL = {
    "name": "ask_the_group",
    "args": {"question": "Capital of France?"},
    "id": "c1",
    "type": "tool_call",
}


def tool(*replies, **options):
    return create_coe_tool(graph(*saying(*replies)).compile(), **options)


@pytest.mark.parametrize(
    ("replies", "action"), [(AGREED, "answer"), (SPLIT, "abstain")], ids=["agreed", "split"]
)
async def test_it_returns_the_answer_or_why_there_is_none(replies, action):
    asked = tool(*replies)
    for message in (asked.invoke(CALL), await asked.ainvoke(CALL)):
        decision = message.artifact
        assert (decision["action"], message.tool_call_id) == (action, "c1")
        assert decision["coe"] is not None
        withheld = f"The group withholds an answer: {decision['reason']}."
        text = "Paris" if action == "answer" else withheld
        assert message.content == text
        assert asked.invoke({"question": "Q?"}) == await asked.ainvoke({"question": "Q?"}) == text


def test_an_answer_that_was_not_decided_for_is_not_given():
    decision = {"action": "abstain", "answer": "Paris", "reason": "as told"}
    asked = create_coe_tool(RunnableLambda(lambda _: {"decision": decision}))
    assert asked.invoke({"question": "Q?"}) == "The group withholds an answer: as told."


def test_its_schema_has_a_question_only():
    schema = tool(*AGREED, description="Mine.").tool_call_schema.model_json_schema()
    assert list(schema["properties"]) == ["question"]
    assert schema["required"] == ["question"]
    assert tool(*AGREED, name="jury", description="Mine.").name == "jury"
    assert tool(*AGREED, description="Mine.").description == "Mine."
    assert "not, and why" in tool(*AGREED).description


def test_a_question_too_long_is_the_calling_models_to_correct():
    agents = saying("Paris")
    asked = create_coe_tool(graph(*agents, max_question_chars=10).compile())
    driver = ScriptedDriver(script=[AIMessage("", tool_calls=[CALL]), AIMessage("Oh.")])
    state = create_agent(driver, [asked]).invoke({"messages": [("user", "Go.")]})
    assert state["messages"][2].status == "error"
    assert (
        'at most 10 characters ("max_question_chars" of the graph); got 18'
        in state["messages"][2].content
    )
    assert state["messages"][-1].text == "Oh."
    assert agents[0].requests == []


async def test_a_group_that_asks_a_person():
    def person(state):
        return {
            "decision": {
                "action": "answer",
                "answer": interrupt(state["question"]),
                "reason": "a person",
            }
        }

    asked = create_coe_tool(around(person))
    with pytest.raises(CoEError, match="no decision"):
        asked.invoke({"question": "Q?"})
    driver = ScriptedDriver(script=[AIMessage("", tool_calls=[CALL]), AIMessage("Done.")])
    agent = create_agent(driver, [asked], checkpointer=InMemorySaver())

    paused = await agent.ainvoke({"messages": [("user", "Go.")]}, THREAD)
    assert paused["__interrupt__"][0].value == "Capital of France?"
    assert (await agent.ainvoke(Command(resume="Paris"), THREAD))["messages"][2].content == "Paris"


def test_graphs_that_do_not_fit():
    with pytest.raises(TypeError, match="Compile it"):
        create_coe_tool(graph(*saying("x")))
    with pytest.raises(ValueError, match="no checkpointer of its own"):
        create_coe_tool(saved(*saying("x")))
