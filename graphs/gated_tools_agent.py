"""An agent with a gated tool, as a deployable graph named in `langgraph.json`; the server brings the checkpointer.

It books flights to capitals ("Book Paris, France"), and asks the group whatever else it is asked. The model that drives
it is a rule, only because tinyworld's models call no tools but their own: put yours there. The group that answers, and
that judges a booking before it is made, is tinyworld's real models; where they are not sure, a person is asked, in the
form that Agent Chat UI has buttons for: resume with `{"decisions": [{"type": "approve"}]}`. The context of a run
changes the gate's thresholds and judges, too: omit `context_schema` where clients are not trusted.
"""

import re
import uuid

from langchain.agents import create_agent
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import tool

from coe_agents import CoEContext, CoEMiddleware, create_coe_graph, create_coe_tool
from coe_agents.clustering import NormalizedMatch
from coe_agents.graph.server import withhold
from coe_agents.prompts import self_check
from coe_agents.testing.driver import ScriptedDriver
from coe_agents.text import for_prompt
from coe_agents.tinyworld import tinyworld_agents, tinyworld_clusterer, tinyworld_policy


@tool
def book_flight(city: str, country: str) -> str:
    """Books a flight to a country's capital."""
    return f"Booked: {city}, {country}."


def drive(messages: list[BaseMessage]) -> AIMessage:
    last = messages[-1]
    if isinstance(last, ToolMessage):
        return AIMessage(last.text)
    booking = re.fullmatch(r"Book ([^,]+), ([^,]+)", last.text.strip().rstrip("."))
    name = "book_flight" if booking else "ask_the_group"
    args = {"city": booking[1], "country": booking[2]} if booking else {"question": last.text}
    return AIMessage("", tool_calls=[{"name": name, "args": args, "id": f"call_{uuid.uuid4()}"}])


def question(request: ToolCallRequest) -> str:
    args = request.tool_call["args"]
    return self_check(f"What is the capital of {for_prompt(args['country'])}?", args["city"])


agents = tinyworld_agents()
group = create_coe_graph(
    agents, clusterer=tinyworld_clusterer(), policy=tinyworld_policy()
).compile()
answers = withhold(group).compile()  # what the gate withheld stays there
judges = create_coe_graph(agents, clusterer=NormalizedMatch(), policy=tinyworld_policy()).compile()
gate = CoEMiddleware(
    judges,
    tools=["book_flight"],
    question=question,
    approves=lambda answer: answer == "True",
    on_uncertain="interrupt",
)
graph = create_agent(
    ScriptedDriver(script=drive),
    [book_flight, create_coe_tool(answers)],
    middleware=[gate],
    context_schema=CoEContext,
    name="gated_tools_agent",
)
