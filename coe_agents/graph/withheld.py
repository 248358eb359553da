"""Owns the message that stands for an answer or a call that a gate withholds."""

from typing import Any

from langchain_core.messages import AIMessage

from coe_agents.types import WITHHELD_MARK

WITHHELD = {"abstain": "I will not answer this: ", "escalate": "This needs someone else: "}
"""How the message of a run begins that gives no answer."""


def withheld_message(
    action: str, reason: str, *, id: str | None = None, **metadata: Any
) -> AIMessage:
    """Returns the message in place of an answer that is withheld, under the mark by which it is known."""
    text = f"{WITHHELD[action]}{reason}."
    return AIMessage(text, id=id, response_metadata={**metadata, WITHHELD_MARK: True})
