"""What `langgraph.json` adds to the server: it refuses a context with an unknown key, which the server would drop."""

from starlette.applications import Starlette
from starlette.middleware import Middleware

from coe_agents.graph.server import ContextCheck

app = Starlette(middleware=[Middleware(ContextCheck)])
