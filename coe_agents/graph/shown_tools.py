"""Owns the tools that a turn shows to the agents: their check, and how what is proposed with them is read."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.utils.function_calling import convert_to_openai_tool

from coe_agents.actions import ActionMatch, check_proposal, describe_action
from coe_agents.actions.canonical import tool_key
from coe_agents.clustering import Clusterer
from coe_agents.graph.state import CoEState
from coe_agents.policy import Measurement
from coe_agents.policy.measurement import response_text
from coe_agents.types import Response, create_response

MOST_TOOLS = 128
"""As OpenAI's API allows."""
MOST_CHARS = 400_000
"""Of all schemas of a turn together, as JSON."""


def check_tools(given: Any, *, where: str) -> list[dict[str, Any]]:
    """Returns tools as OpenAI's function schemas.

    Args:
        given: LangChain tools, functions, or schemas of any provider's.
        where: Where they were given, for the error.

    Raises:
        TypeError: They are no list of tools.
        ValueError: There are none or too many, two have one name, or a schema is no JSON or too long.
    """
    example = '{"type": "function", "function": {"name": "pay", "parameters": {...}}}'
    if not isinstance(given, list | tuple):
        raise TypeError(f"{where} must be a list of tools; got {type(given).__name__}. Write [{example}]")
    if not 1 <= len(given) <= MOST_TOOLS:
        raise ValueError(f"{where} must hold 1 to {MOST_TOOLS} tools; got {len(given)}. Omit it to show none")
    schemas = [_to_schema(tool, where=f"{where}[{place}]") for place, tool in enumerate(given)]
    names = [tool_key(schema["function"]["name"]) for schema in schemas]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f'the names in {where} must differ ("." is read as "_"); got {twice!r:.99} twice. Rename one')
    try:
        text = json.dumps(schemas, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"the schemas in {where} must be JSON; {error}. Correct them") from error
    if len(text) > MOST_CHARS:
        raise ValueError(f"{where} must have at most {MOST_CHARS} characters as JSON; got {len(text)}. Show fewer")
    plain: list[dict[str, Any]] = json.loads(text)
    return plain


def _to_schema(tool: Any, *, where: str) -> dict[str, Any]:
    try:
        schema = convert_to_openai_tool(tool)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{where} must be a tool; {error}. Pass a LangChain tool or its JSON schema") from error
    own = schema.get("function") if schema.get("type") == "function" else None
    name = own.get("name") if isinstance(own, Mapping) else None
    if not isinstance(name, str) or not name.strip():
        raise TypeError(f"{where} must be a function with a name; got {schema!r:.200}. Pass its JSON schema")
    return schema


def clusterer_of(state: CoEState, clusterer: Clusterer) -> Clusterer:
    """Returns the clusterer of a turn: one that compares actions where it shows tools.

    The graph's own `ActionMatch` keeps its rules.
    """
    tools = state.get("shown")
    if tools is None:
        return clusterer
    return clusterer.with_tools(tools) if isinstance(clusterer, ActionMatch) else ActionMatch(tools)


def read_actions(responses: Sequence[Response], tools: Sequence[Any], clusterer: Clusterer) -> list[Response]:
    """Returns the responses of agents that were shown tools, each with what is compared of it as its answer.

    What an agent calls is compared, whatever it says is its answer; calls that do not fit the tools are a failure. A
    text is changed if it would be read as an action: it was not proposed as one.
    """
    return [row if row["error"] is not None else _read(row, tools, clusterer) for row in responses]


def _read(row: Response, tools: Sequence[Any], clusterer: Clusterer) -> Response:
    calls = row.get("calls")
    if calls is None:
        text = response_text(row)
        is_action = isinstance(clusterer, ActionMatch) and bool(clusterer.align([text]))
        return {**row, "answer": f"(no proposal: {text!r})"} if is_action else row
    try:
        return {**row, "answer": check_proposal(calls, tools=tools)}
    except (TypeError, ValueError) as error:
        message = f"InvalidReplyError: the proposal is invalid: {error}"
        return create_response(row["agent"], "", round=row["round"], index=row["index"], error=message)


def proposals_in_words(measurement: Measurement) -> dict[str, str]:
    """Returns the calls of each representative that is a proposal, with the arguments as they would run."""
    return {text: describe_action(json.dumps(calls)) for text, calls in measurement.writings.items()}
