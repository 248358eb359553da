"""What people decide, and the middleware of LangChain that asks them."""

from langchain.agents.middleware import HumanInTheLoopMiddleware
from langgraph.types import Command

from coe_agents.middleware import describe_call

APPROVE = {"type": "approve"}


def edit(name="transfer_money", /, **args):
    return {"type": "edit", "edited_action": {"name": name, "args": args}}


def decide(*decisions):
    return Command(resume={"decisions": list(decisions)})


def requests(state):
    """What a person is asked about, a request for each call."""
    (asked,) = state["__interrupt__"]
    return asked.value["action_requests"]


def people(*, mode="batched"):
    """LangChain's own middleware, which asks a person about each transfer."""
    review = {"allowed_decisions": ["approve", "edit", "reject"], "description": describe_call}
    return HumanInTheLoopMiddleware({"transfer_money": review}, interrupt_mode=mode)
