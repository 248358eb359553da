"""What each script of this folder does: it asks the same questions with one client, and prints what a user of it sees.

A script runs in the environment of its client, where neither this project nor pytest is.
"""

import importlib.metadata
import json
import sys

from pydantic import BaseModel

BASE_URL = sys.argv[1] if len(sys.argv) > 1 else ""
PARAMETERS = {
    "type": "object",
    "properties": {"to": {"type": "string"}, "amount": {"type": "number"}},
}
PAID = []
"""The payments that were made since it was cleared."""
QUESTIONS = {
    "answer": "What is the capital?",
    "refusal": "Which is the best city?",
    "call": "Pay Ann 5",
    "structured": "Which place is it?",
    "failure": "Who is there?",
}


class Place(BaseModel):
    city: str
    country: str


def pay(to: str, amount: float) -> str:
    """Pays somebody."""
    PAID.append(f"pay({to}, {amount:g})")
    return "paid"


def said(message):
    """What a message of OpenAI's API says: its calls, else its text."""
    calls = [
        f"{call.function.name}({call.function.arguments})" for call in message.tool_calls or ()
    ]
    return ", ".join(calls) or message.content or getattr(message, "refusal", None) or ""


def report(package, **forms):
    """Prints what is shown: by form, such as "whole" and "stream", a function from a kind of question to a text.

    A function returns None where the client has no such thing.
    """
    shown = {form: {kind: _shown(ask, kind) for kind in QUESTIONS} for form, ask in forms.items()}
    print(json.dumps({"version": importlib.metadata.version(package), "shown": shown}))


def _shown(ask, kind):
    try:
        return ask(kind)
    except Exception as error:
        return {"error": type(error).__name__, "message": str(error)}
