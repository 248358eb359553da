"""Owns a decision about proposals in words: its actions as people read them, and what is contested.

Names and values are models' texts, which are untrusted: whoever shows them cleans them.
"""

import json
from collections.abc import Mapping
from typing import Any

from coe_agents.actions.proposals import called_tools, describe_action

_MOST_VALUES = 4
_LONGEST_VALUE = 60


def is_about_actions(decision: Mapping[str, Any]) -> bool:
    """Returns whether a decision is about tool calls that agents proposed."""
    return (
        decision.get("answer_kind") in ("call", "no_call") or decision.get("contested") is not None
    )


def action_in_words(text: str) -> str:
    """Returns an action in words; a text that is not an action stays as it is.

    Example:
        >>> action_in_words('[{"args":{"to":"ann"},"name":"pay"}]'), action_in_words("Paris")
        ('pay(to="ann")', 'Paris')
    """
    return text if called_tools(text) is None else describe_action(text)


def contested_in_words(contested: Mapping[str, Any], *, n_agents: int) -> str:
    """Returns the sentence about the argument with the most votes against the leading proposal, or about the tool.

    Example:
        >>> values = [{"value": 5, "agents": ["a", "b"]}, {"value": 900, "agents": ["c"]}]
        >>> contested_in_words({"candidates": {"pay.amount": values}}, n_agents=3)
        'They disagree about `amount` of `pay`: 5 (a, b) or 900 (c).'
    """
    candidates = contested["candidates"]
    keys = [key for key in candidates if key != "tool"] or [*candidates]
    if not keys:
        return ""
    tool, _, name = keys[0].partition(".")
    what = f"`{name}` of `{tool}`" if name else "the tool"
    nothing = "omitted" if name else "no call"
    values = [
        f"{nothing if each['value'] is None else _short(each['value'])} ({', '.join(each['agents'])})"
        for each in candidates[keys[0]]
    ]
    if (n_more := len(values) - _MOST_VALUES) > 0:
        values[_MOST_VALUES:] = [f"{n_more} more"]
    who = "They disagree about" if n_agents > 1 else "It hesitates about"
    return f"{who} {what}: {', '.join(values[:-1])}{' or ' if len(values) > 1 else ''}{values[-1]}."


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"
