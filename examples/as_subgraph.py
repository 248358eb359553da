"""The gate as a node of another graph that has the keys `question`, `messages` and `decision`, too."""

from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

from coe_agents import create_coe_graph
from coe_agents.tinyworld import tinyworld_agents, tinyworld_clusterer, tinyworld_policy


class State(TypedDict, total=False):
    """A state that shares the keys of the gate."""

    question: str
    messages: Annotated[list[AnyMessage], add_messages]
    decision: dict[str, Any]


def route(state: State) -> str:
    return END if state["decision"]["action"] == "answer" else "look_up"


def look_up(state: State) -> State:
    return {"messages": [AIMessage(f"I will look it up, since {state['decision']['reason']}.")]}


gate = create_coe_graph(
    tinyworld_agents(), clusterer=tinyworld_clusterer(), policy=tinyworld_policy()
).compile()
builder = StateGraph(State)
builder.add_node("gate", gate)
builder.add_node("look_up", look_up)
builder.add_edge(START, "gate")
builder.add_conditional_edges("gate", route, [END, "look_up"])
graph = builder.compile()

if __name__ == "__main__":
    for question in ("What is the capital of France?", "What is the capital of Australia?"):
        print(question)
        print(f"  {graph.invoke({'question': question})['messages'][-1].text}")
