"""What drivers say: the calls that a gate is about, and answers."""

from typing import Literal

from langchain_core.messages import AIMessage, ToolMessage
from pydantic import BaseModel

PAY = {"messages": [("user", "Send 10 to Ann.")]}
ANN = {"to": "Ann", "amount": 1}
BOB = {"to": "Bob", "amount": 2}
LOOKS = {"name": "balance", "args": {}, "id": "b1"}


def call(tool="transfer_money", /, id="c1", **args):
    return {"name": tool, "args": args or {"to": "Ann", "amount": 10}, "id": id}


def says(*calls, text="I will."):
    return AIMessage(text, tool_calls=list(calls))


DONE = says(text="Done.")


class Weather(BaseModel):
    """The weather."""

    sky: Literal["clear", "cloudy"]


def weather(sky, id="w1"):
    return {"name": "Weather", "args": {"sky": sky}, "id": id}


def replies(state):
    """The tools' replies."""
    return [message for message in state["messages"] if isinstance(message, ToolMessage)]
