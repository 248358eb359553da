"""Owns the step from a model's message to the tool calls that it proposes."""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage

from coe_agents.actions import check_proposal
from coe_agents.actions.canonical import Parser
from coe_agents.actions.proposals import check_calls
from coe_agents.errors import InvalidReplyError
from coe_agents.files import parse_json


def read_proposal(
    message: AIMessage, tools: Sequence[Any], *, parsers: Mapping[str, Parser] | None = None, is_compared: bool = True
) -> tuple[list[dict[str, Any]], str]:
    """Returns the calls of a message, each with "name" and "args", and their canonical form.

    Args:
        message: What the model said. It is untrusted.
        tools: The tools that the model was shown.
        parsers: As in `coe_agents.actions.canonical_action`.
        is_compared: Whether the canonical form is compared; if not, it is written without schemas.

    Raises:
        InvalidReplyError: A call cannot be read, for example because its JSON names an argument twice, or it does not
            fit the tools: see `coe_agents.actions.check_proposal`.
    """
    if message.invalid_tool_calls:
        name = message.invalid_tool_calls[0].get("name")
        why = message.invalid_tool_calls[0].get("error") or "its arguments are not JSON"
        raise _invalid(f"the call of {str(name)[:80]!r} cannot be read: {str(why)[:200]}")
    calls = [{"name": call["name"], "args": call["args"]} for call in message.tool_calls]
    try:
        for arguments in _as_sent(message):
            parse_json(arguments, is_strict=True)
        if not is_compared:
            return calls, check_calls(calls, tools=tools)
        return calls, check_proposal(calls, tools=tools, parsers=parsers)
    except (ValueError, TypeError) as error:
        raise _invalid(str(error)) from error


def _as_sent(message: AIMessage) -> list[str]:
    """Returns the JSON of arguments as OpenAI's API sends it, where LangChain's parser hides repeated names."""
    sent = message.additional_kwargs.get("tool_calls")
    functions = [call.get("function") for call in sent if isinstance(call, Mapping)] if isinstance(sent, list) else []
    arguments = [function.get("arguments") for function in functions if isinstance(function, Mapping)]
    return [text for text in arguments if isinstance(text, str) and text.strip()]


def _invalid(why: str) -> InvalidReplyError:
    hint = "Check the model's tool calls, for example the server's tool-call parser"
    return InvalidReplyError(f"the proposal is invalid: {why}", hint=hint, retryable=False)
