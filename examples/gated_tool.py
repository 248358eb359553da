"""A risky tool that runs only if the group is sure that the call is right, and a person is asked where it is not.

The driving model is scripted, since tinyworld's models know three tools of their own alone: it books what it is told
to. The group is tinyworld's real models. They cannot judge a booking, but they can tell whether a city is the
capital, so that is asked.
"""

from textwrap import indent

from langchain.agents import create_agent
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from coe_agents import CoEMiddleware, create_coe_graph
from coe_agents.clustering import NormalizedMatch
from coe_agents.prompts import self_check
from coe_agents.testing.driver import ScriptedDriver
from coe_agents.text import for_prompt
from coe_agents.tinyworld import tinyworld_agents, tinyworld_policy


@tool
def book_flight(city: str, country: str) -> str:
    """Books a flight to a country's capital."""
    return f"Booked: {city}, {country}."


def drive(messages: list[BaseMessage]) -> AIMessage:
    last = messages[-1]
    if isinstance(last, ToolMessage):
        return AIMessage(last.text)
    city, country = last.text.split(", ")
    call = {
        "name": "book_flight",
        "args": {"city": city, "country": country},
        "id": f"call_{len(messages)}",
    }
    return AIMessage("", tool_calls=[call])


def question(request: ToolCallRequest) -> str:
    args = request.tool_call["args"]
    return self_check(f"What is the capital of {for_prompt(args['country'])}?", args["city"])


group = create_coe_graph(
    tinyworld_agents(), clusterer=NormalizedMatch(), policy=tinyworld_policy()
).compile()
gate = CoEMiddleware(
    group,
    tools=["book_flight"],
    question=question,
    approves=lambda answer: answer == "True",
    on_uncertain="interrupt",
)
agent = create_agent(
    ScriptedDriver(script=drive), [book_flight], middleware=[gate], checkpointer=InMemorySaver()
)

if __name__ == "__main__":
    for wish in ("Paris, France", "Milan, Italy", "Canberra, Australia"):
        thread = {"configurable": {"thread_id": wish}}
        state = agent.invoke({"messages": [("user", wish)]}, thread)
        for asked in state.get("__interrupt__", ()):
            (request,) = asked.value[
                "action_requests"
            ]  # one for each call that the group is not sure of
            print(f"{wish}\n  a person is asked:\n{indent(request['description'], '    ')}")
            state = agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), thread)
        print(f"{wish}\n  {state['messages'][-1].text}")
