"""Owns the tools that a turn shows to the agents: their check, and how what is proposed with them is read."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.utils.function_calling import convert_to_openai_tool

from coe_agents.actions.canonical import tool_key
from coe_agents.actions.match import compare_actions
from coe_agents.actions.proposals import (
    check_proposal,
    compared_answer,
    describe_action,
    has_proposals,
)
from coe_agents.actions.structured import ANSWER, answer_tool, read_structured
from coe_agents.clustering import Clusterer
from coe_agents.clustering.refusals import answer_kind, response_text
from coe_agents.errors import invalid_proposal
from coe_agents.graph.state import CoEState, Turn
from coe_agents.policy import Measurement
from coe_agents.text import is_visible
from coe_agents.types import Response, create_response, end_of

MOST_TOOLS = 128
"""As OpenAI's API allows."""
MOST_CHARS = 400_000
"""Of all schemas of a turn together, as JSON."""


def check_tools(tools: Any, *, where: str) -> list[dict[str, Any]]:
    """Returns tools as OpenAI's function schemas; `where` they come from is for the error."""
    example = '{"type": "function", "function": {"name": "pay", "parameters": {...}}}'
    if not isinstance(tools, list | tuple):
        raise TypeError(
            f"{where} must be a list of tools; got {type(tools).__name__}. Write [{example}]"
        )
    if not 1 <= len(tools) <= MOST_TOOLS:
        raise ValueError(
            f"{where} must hold 1 to {MOST_TOOLS} tools; got {len(tools)}. Omit it to show none"
        )
    schemas: list[dict[str, Any]] = []
    names: set[str] = set()
    for place, tool in enumerate(tools):
        schema = _to_schema(tool, where=f"{where}[{place}]")
        name = tool_key(schema["function"]["name"])
        if name in names:
            raise ValueError(
                f'the names in {where} must differ ("." is read as "_"); got {name!r:.99} twice. Rename one'
            )
        schemas.append(schema)
        names.add(name)
    try:
        text = json.dumps(schemas, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"the schemas in {where} must be JSON; {error}. Correct them") from error
    if len(text) > MOST_CHARS:
        raise ValueError(
            f"{where} must have at most {MOST_CHARS} characters as JSON; got {len(text)}. Show fewer"
        )
    plain: list[dict[str, Any]] = json.loads(text)
    return plain


def _to_schema(tool: Any, *, where: str) -> dict[str, Any]:
    try:
        schema = convert_to_openai_tool(tool)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{where} must be a tool; {error}. Pass a LangChain tool or its JSON schema"
        ) from error
    function = schema.get("function") if schema.get("type") == "function" else None
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(name, str) or not name.strip():
        raise TypeError(
            f"{where} must be a function with a name; got {schema!r:.200}. Pass its JSON schema"
        )
    return schema


def is_about_actions(state: CoEState) -> bool:
    """Returns whether a turn shows tools, or asks for a structured answer, or an agent with own tools was asked."""
    return compared_tools(state["turn"]) is not None or has_proposals(state["responses"])


def compared_tools(turn: Turn) -> list[dict[str, Any]] | None:
    """Returns the tools of a turn, and the one that stands for a structured answer; None without any."""
    tools = turn["tools"]
    schema = turn.get("answer_schema")
    if schema is None:
        return tools
    return [*(tools or ()), answer_tool(schema)]


def clusterer_of(state: CoEState, clusterer: Clusterer) -> Clusterer:
    """Returns the clusterer of a turn; see `compare_actions`."""
    if not is_about_actions(state):
        return clusterer
    return compare_actions(clusterer, compared_tools(state["turn"]))


def read_actions(responses: Sequence[Response], turn: Turn) -> list[Response]:
    """Returns the responses of a turn in which calls are proposed, each with what is compared of it as its answer.

    See `compared_answer`. Calls that do not fit the tools which the turn shows are a failure. So is an answer that does
    not fit the turn's schema; one that does is a call, too.
    """
    tools = compared_tools(turn)
    schema = turn.get("answer_schema")
    return [row if row["error"] is not None else _read(row, tools, schema) for row in responses]


def _read(row: Response, tools: Sequence[Any] | None, schema: Mapping[str, Any] | None) -> Response:
    end = end_of(row)
    text = row["text"]
    try:
        # another call may have followed
        if row.get("calls") and end != "whole":
            raise ValueError(f"its reply is {end}, not whole")

        # of a form such as {"city": ""}, the schema says whether it is an answer
        is_silent = not any(map(is_visible, "".join(text.split())))
        is_answer = end != "filtered" and not is_silent and answer_kind(text) != "refusal"
        if schema is not None and not row.get("calls") and is_answer:
            call = {"name": ANSWER, "args": read_structured(text, schema)}
            row = {**row, "answer": None, "calls": [call]}

        calls = row.get("calls")
        if calls is None or tools is None:
            # the calls, if any, are of tools of the agents' own
            answer = compared_answer(row)
        else:
            answer = check_proposal(calls, tools=tools)
        return row if answer == response_text(row) else {**row, "answer": answer}
    except (TypeError, ValueError) as error:
        invalid = invalid_proposal(str(error))
        return create_response(
            row["agent"],
            "",
            round=row["round"],
            index=row["index"],
            error=f"InvalidReplyError: {invalid}",
            fault=invalid.fault,
        )


def proposals_in_words(measurement: Measurement) -> dict[str, str]:
    """Returns the calls of each representative that is a proposal, with the arguments as they would run."""
    return {
        text: describe_action(json.dumps(calls))
        for text, calls in measurement.proposals.writings.items()
    }
