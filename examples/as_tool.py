"""The group as a tool of an agent.

The driving model is scripted, since tinyworld's models know three tools of their own alone: it asks the group what
the user asked, and repeats what the group says. The group is tinyworld's real models.
"""

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from coe_agents import create_coe_graph, create_coe_tool
from coe_agents.testing.driver import ScriptedDriver
from coe_agents.tinyworld import tinyworld_agents, tinyworld_clusterer, tinyworld_policy


def drive(messages: list[BaseMessage]) -> AIMessage:
    last = messages[-1]
    if isinstance(last, ToolMessage):
        return AIMessage(last.text)
    call = {"name": "ask_the_group", "args": {"question": last.text}, "id": "call_1"}
    return AIMessage("", tool_calls=[call])


group = create_coe_graph(
    tinyworld_agents(), clusterer=tinyworld_clusterer(), policy=tinyworld_policy()
).compile()
agent = create_agent(ScriptedDriver(script=drive), [create_coe_tool(group)])

if __name__ == "__main__":
    for question in ("What is the capital of France?", "What is the capital of Australia?"):
        state = agent.invoke({"messages": [("user", question)]})
        print(f"{question}\n  {state['messages'][-1].text}")
        print(f"  regime: {state['messages'][-2].artifact['regime']}")
