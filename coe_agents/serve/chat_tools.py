"""Owns the tools of a chat completion request: their schemas, earlier calls and results.

What cannot be read is refused by an `ApiError`.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from coe_agents.actions.schemas import check_schema
from coe_agents.actions.structured import ANSWER, check_answer_schema
from coe_agents.files import parse_json
from coe_agents.graph.shown_tools import check_tools
from coe_agents.serve.api_error import invalid_request

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
"""As OpenAI's API allows."""
_MOST_CALLS = 128
_LONGEST_ID = 256


def read_tools(given: Any) -> list[dict[str, Any]]:
    """Returns the functions of a request; [] where it has none."""
    if not isinstance(given, list):
        raise invalid_request("tools", '"tools" must be a list. Correct it, or omit it')
    for place, tool in enumerate(given):
        where = f"tools[{place}]"
        if not isinstance(tool, Mapping) or tool.get("type") != "function":
            must = f'{where} must have the type "function": other tools are not supported'
            raise invalid_request(where, f"{must}. Omit it")
        function = tool.get("function")
        function = function if isinstance(function, Mapping) else {}
        name = function.get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            must = f"{where}.function must have a name of at most 64 letters, digits, _ and -"
            raise invalid_request(where, f"{must}. Correct it")
        _check_schema(function.get("parameters", {}), f'"parameters" of {where}', param=where)
    try:
        return check_tools(given, where='"tools"') if given else []
    except (TypeError, ValueError) as error:
        raise invalid_request("tools", str(error)) from error


def choose_tools(tools: list[dict[str, Any]], choice: Any) -> tuple[list[dict[str, Any]], bool]:
    """Returns the functions that a request lets the agents call, and whether they must call one."""
    function = choice.get("function") if isinstance(choice, Mapping) and choice.get("type") == "function" else None
    if choice not in ("none", "auto", "required") and not isinstance(function, Mapping):
        must = '"tool_choice" must be "none", "auto" or "required", or name a function'
        raise invalid_request("tool_choice", f"{must}: others are not supported. Correct it")
    if choice == "auto":
        return tools, False
    if choice == "none":
        return [], False
    named = [tool for tool in tools if function is None or tool["function"]["name"] == function.get("name")]
    if not named:
        must = '"tool_choice" must name a function of "tools"' if tools else '"tool_choice" requires a call of "tools"'
        raise invalid_request("tool_choice", f"{must}, and there is none. Add it, or omit the choice")
    return named, True


def read_format(given: Any, tools: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Returns the schema that an answer must fit; None where it is a text."""
    kind = given.get("type") if isinstance(given, Mapping) else None
    if given is None or kind == "text":
        return None
    stated = given.get("json_schema") if kind == "json_schema" else {"schema": {"type": "object"}}
    if kind not in ("json_schema", "json_object") or not isinstance(stated, Mapping):
        must = '"response_format" must have the type "text", "json_object" or "json_schema", with a "json_schema"'
        raise invalid_request("response_format", f"{must}: others are not supported. Correct it")
    if any(tool["function"]["name"] == ANSWER for tool in tools):
        raise invalid_request("tools", f'no function may be called "{ANSWER}" beside a "response_format". Rename it')
    _check_schema(stated.get("schema"), 'the schema of "response_format"', param="response_format")
    return dict(stated["schema"])


def _check_schema(schema: Any, what: str, *, param: str) -> None:
    try:
        check_schema(schema)
        if schema:
            check_answer_schema(schema, where=what)
    except (TypeError, ValueError, RecursionError) as error:
        raise invalid_request(param, f"{what} must be a JSON schema of an object: {error}. Correct it") from error


def read_calls(given: Any, place: str) -> list[dict[str, Any]]:
    """Returns the earlier calls of a message of the assistant."""
    if not isinstance(given, list) or len(given) > _MOST_CALLS:
        raise invalid_request(place, f"{place} must be a list of at most {_MOST_CALLS} calls. Correct it")
    calls = []
    for call in given:
        function = call.get("function") if isinstance(call, Mapping) else None
        function = function if isinstance(function, Mapping) else {}
        name, arguments = function.get("name"), function.get("arguments")
        if not isinstance(name, str) or not _NAME.fullmatch(name) or not _is_object(arguments):
            must = f'{place} must hold functions, with a name and "arguments" that are an object as a JSON string'
            raise invalid_request(place, f"{must}. Send back what the server sent")
        calls.append(
            {"id": read_id(call, "id", place), "type": "function", "function": {"name": name, "arguments": arguments}}
        )
    return calls


def check_results(messages: Sequence[Mapping[str, Any]]) -> None:
    """Refuses a conversation in which a call is not followed by its one result, or a result by no call."""
    place, open_calls = "messages", set[str]()
    for number, message in enumerate(messages):
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                must = f'messages[{number}] must follow the call that its "tool_call_id" names, and no other result'
                raise invalid_request(f"messages[{number}]", f"{must} of it. Add the call, or omit the result")
            open_calls.remove(message["tool_call_id"])
            continue
        if open_calls:
            break
        place, ids = f"messages[{number}]", [call["id"] for call in message.get("tool_calls", ())]
        open_calls = set(ids)
        if len(open_calls) < len(ids):
            raise invalid_request(place, f'the calls of {place} must have different "id". Correct them')
    if open_calls:
        must = f'each call of {place} must be followed by a message of the role "tool" with its result'
        raise invalid_request(place, f"{must}. Add it, or omit the calls")


def _is_object(arguments: Any) -> bool:
    try:
        return isinstance(arguments, str) and isinstance(parse_json(arguments, is_strict=True), dict)
    except ValueError:
        return False


def read_id(message: Mapping[str, Any], name: str, place: str) -> str:
    """Returns the id of a call, or of the call whose result a message is."""
    value = message.get(name)
    if not isinstance(value, str) or not 1 <= len(value) <= _LONGEST_ID:
        raise invalid_request(place, f'"{name}" in {place} must be a text of at most {_LONGEST_ID} characters. Add it')
    return value
