"""An agent whose calls a council of other models vouches for, as a deployable graph named in `langgraph.json`.

It looks up facts, converts units ("Convert 3 metres to centimetres.") and transfers money. One of tinyworld's models
drives it; the others propose independently, and a call that enough of them propose runs. Where they do not agree, a
person is asked, in the form that Agent Chat UI has buttons for: resume with `{"decisions": [{"type": "approve"}]}`.
Texts are not judged.
"""

from langchain.agents import create_agent

from coe_agents import CoECouncil, SupportPolicy
from coe_agents.tinyworld import tinyworld_agents, tinyworld_tools

tools = tinyworld_tools()
driver, *members = tinyworld_agents(n_samples=5)
council = CoECouncil(members, tools=[tool.name for tool in tools], policy=SupportPolicy(0.6), on_uncertain="interrupt")
model = driver.model().model_copy(update={"temperature": 0.0})
graph = create_agent(model, tools, middleware=[council], name="council")
