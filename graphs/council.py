"""An agent whose calls a council of other models vouches for, as a deployable graph named in `langgraph.json`.

It looks up facts, converts units and transfers money. One of tinyworld's models drives it; the others propose
independently, and a call that most of them propose runs: try "Send Nina 60 euros." and "Convert 3 metres to
centimetres." Where they do not agree, as about "Please pay Ivan the sum of 75 euros.", where the driver confuses the
name, a person is asked, in the form that Agent Chat UI has buttons for: resume with
`{"decisions": [{"type": "approve"}]}`, or with the right call:
`{"decisions": [{"type": "edit", "edited_action": {"name": "transfer", "args": {"name": "Ivan", "amount": 75}}}]}`.
"Do not send Bob 9 euros." calls nothing. Texts are not judged.
"""

from langchain.agents import create_agent

from coe_agents import CoECouncil
from coe_agents.tinyworld import tinyworld_agents, tinyworld_tools

tools = tinyworld_tools()
driver, *members = tinyworld_agents(n_samples=5)
council = CoECouncil(members, tools=[tool.name for tool in tools], on_uncertain="interrupt")
model = driver.model().model_copy(update={"temperature": 0.0})
graph = create_agent(model, tools, middleware=[council], name="council")
