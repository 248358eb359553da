"""Owns the body of a chat completion request: what the group can do, what has no effect, and what is refused.

Its tools, earlier calls and results are checked, too. What cannot be read is refused by an `ApiError`.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coe_agents.actions.canonical import Room
from coe_agents.actions.schemas import Work, check_schema
from coe_agents.actions.structured import ANSWER, check_answer_schema
from coe_agents.decision.refusal import is_refusal
from coe_agents.extensions import did_you_mean
from coe_agents.files import parse_json
from coe_agents.graph.shown_tools import check_tools
from coe_agents.prompts import MUST_CALL
from coe_agents.serve.api_error import ApiError, invalid_request

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
"""As OpenAI's API allows."""
_MOST_CALLS = 128
_LONGEST_ID = 256


def read_tools(given: Any, work: Work) -> list[dict[str, Any]]:
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
        _check_schema(function.get("parameters", {}), f'"parameters" of {where}', work, param=where)
    try:
        return check_tools(given, where='"tools"') if given else []
    except (TypeError, ValueError) as error:
        raise invalid_request("tools", str(error)) from error


def choose_tools(tools: list[dict[str, Any]], choice: Any) -> tuple[list[dict[str, Any]], bool]:
    """Returns the functions that a request lets the agents call, and whether they must call one."""
    function = (
        choice.get("function")
        if isinstance(choice, Mapping) and choice.get("type") == "function"
        else None
    )
    if choice not in ("none", "auto", "required") and not isinstance(function, Mapping):
        must = '"tool_choice" must be "none", "auto" or "required", or name a function'
        raise invalid_request("tool_choice", f"{must}: others are not supported. Correct it")
    if choice == "auto":
        return tools, False
    if choice == "none":
        return [], False
    named = [
        tool
        for tool in tools
        if function is None or tool["function"]["name"] == function.get("name")
    ]
    if not named:
        must = (
            '"tool_choice" must name a function of "tools"'
            if tools
            else '"tool_choice" requires a call of "tools"'
        )
        raise invalid_request("tool_choice", f"{must}. Add it, or omit the choice")
    return named, True


def read_format(
    given: Any, tools: Sequence[Mapping[str, Any]], work: Work
) -> dict[str, Any] | None:
    """Returns the schema that an answer must fit; None where it is a text."""
    kind = given.get("type") if isinstance(given, Mapping) else None
    if given is None or kind == "text":
        return None
    stated = given.get("json_schema") if kind == "json_schema" else {"schema": {"type": "object"}}
    if kind not in ("json_schema", "json_object") or not isinstance(stated, Mapping):
        must = '"response_format" must have the type "text", "json_object" or "json_schema", with a "json_schema"'
        raise invalid_request("response_format", f"{must}: others are not supported. Correct it")
    if any(tool["function"]["name"] == ANSWER for tool in tools):
        raise invalid_request(
            "tools", f'no function may be called "{ANSWER}" beside a "response_format". Rename it'
        )
    _check_schema(
        stated.get("schema"), 'the schema of "response_format"', work, param="response_format"
    )
    return dict(stated["schema"])


def _check_schema(schema: Any, what: str, work: Work, *, param: str) -> None:
    try:
        check_schema(schema)
        if schema:
            check_answer_schema(schema, where=what, work=work)
    except (TypeError, ValueError, RecursionError) as error:
        raise invalid_request(
            param, f"{what} must be a JSON schema of an object: {error}. Correct it"
        ) from error


def read_calls(given: Any, place: str) -> list[dict[str, Any]]:
    """Returns the earlier calls of a message of the assistant."""
    if not isinstance(given, list) or len(given) > _MOST_CALLS:
        raise invalid_request(
            place, f"{place} must be a list of at most {_MOST_CALLS} calls. Correct it"
        )
    calls = []
    for call in given:
        function = call.get("function") if isinstance(call, Mapping) else None
        function = function if isinstance(function, Mapping) else {}
        name, arguments = function.get("name"), function.get("arguments")
        if not isinstance(name, str) or not _NAME.fullmatch(name) or not _is_object(arguments):
            must = f'{place} must hold functions, with a name and "arguments" that are an object as a JSON string'
            raise invalid_request(place, f"{must}. Send back what the server sent")
        called = {"name": name, "arguments": arguments}
        calls.append({"id": read_id(call, "id", place), "type": "function", "function": called})
    return calls


def check_results(messages: Sequence[Mapping[str, Any]]) -> None:
    """Refuses a conversation in which a call is not followed by its one result, or a result by no call."""
    place, open_calls = "messages", set[str]()
    for number, message in enumerate(messages):
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                must = f'messages[{number}] must follow the call that its "tool_call_id" names, and no other result'
                raise invalid_request(
                    f"messages[{number}]", f"{must} of it. Add the call, or omit the result"
                )
            open_calls.remove(message["tool_call_id"])
            continue
        if open_calls:
            break
        place, ids = f"messages[{number}]", [call["id"] for call in message.get("tool_calls", ())]
        open_calls = set(ids)
        if len(open_calls) < len(ids):
            raise invalid_request(
                place, f'the calls of {place} must have different "id". Correct them'
            )
    if open_calls:
        must = (
            f'each call of {place} must be followed by a message of the role "tool" with its result'
        )
        raise invalid_request(place, f"{must}. Add it, or omit the calls")


def _is_object(arguments: Any) -> bool:
    try:
        parsed = parse_json(arguments, is_strict=True) if isinstance(arguments, str) else None
        json.dumps(parsed, ensure_ascii=False).encode()  # which refuses half of a surrogate pair
        return isinstance(parsed, dict)
    except ValueError:
        return False


def read_id(message: Mapping[str, Any], name: str, place: str) -> str:
    """Returns the id of a call, or of the call whose result a message is."""
    value = message.get(name)
    if not isinstance(value, str) or not 1 <= len(value) <= _LONGEST_ID:
        raise invalid_request(
            place, f'"{name}" in {place} must be a text of at most {_LONGEST_ID} characters. Add it'
        )
    return value


_PENALTIES, _LENGTHS = (
    ("presence_penalty", "frequency_penalty"),
    ("max_tokens", "max_completion_tokens"),
)
_HAS_NO_EFFECT = (
    "temperature",
    "top_p",
    "seed",
    *_PENALTIES,
    *_LENGTHS,
    "reasoning_effort",
    "verbosity",
)
"""Set by the operator for each agent; repeated to the caller in `coe.ignored`."""
OF_CALLER = (
    "user",
    "metadata",
    "safety_identifier",
    "service_tier",
    "prompt_cache_key",
    "prompt_cache_retention",
)
_REFUSED: Mapping[str, tuple[Sequence[Any], str]] = {
    "n": ((1,), "the group gives one answer, from all responses of its agents"),
    "logprobs": (
        (False,),
        "an answer of the group is no sample of one model; the field `coe` holds its uncertainty",
    ),
    "top_logprobs": (
        (0,),
        "an answer of the group is no sample of one model; the field `coe` holds its uncertainty",
    ),
    "functions": (([],), '"tools" replaces it'),
    "function_call": (("none", "auto"), '"tool_choice" replaces it'),
    "logit_bias": (({},), "the agents are other models, with other tokens"),
    "modalities": ((["text"],), "the group answers with text"),
    "audio": ((), "the group answers with text"),
    "prediction": ((), "an answer of the group is no continuation of a text"),
    "web_search_options": ((), "the group answers with text"),
    "store": ((False,), "nothing is stored"),
}
"""Values that ask for nothing, and why others are refused."""
_OF_ANSWER = ("tools", "tool_choice", "parallel_tool_calls", "response_format", "stop")
_OWN = ("model", "messages", *_OF_ANSWER, "stream", "stream_options", "coe")
KNOWN = (*_OWN, *_HAS_NO_EFFECT, *OF_CALLER, *_REFUSED)
_MOST_MESSAGES = 2048
"""As OpenAI's API allows; each takes a thousand times its text in memory if it is short."""
_MOST_STOPS = 16
_ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """A request that the group can answer.

    Attributes:
        messages: The conversation, of "role", "content" and tool calls; at its end are a text of the user, or results
            of tools.
        tools: What the agents are shown; [] where the request has none, or forbids to call them.
        most_calls: How many calls the answer may have; None sets no limit.
        must_call: Whether an answer without a call is refused.
        schema: The JSON schema of the answer; None where it is a text.
        stop: The texts before the first of which an answer ends.
        coe: The options of the gate, not yet checked.
        with_usage: Whether the stream ends with the tokens.
        ignored: The options that have no effect.
    """

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    most_calls: int | None
    must_call: bool
    schema: dict[str, Any] | None
    stop: tuple[str, ...]
    coe: Mapping[str, Any]
    is_stream: bool
    with_usage: bool
    ignored: tuple[str, ...]

    @property
    def graph_input(self) -> dict[str, Any]:
        """What the graph is asked."""
        schema = {} if self.schema is None else {"answer_schema": self.schema}
        return {"messages": self.messages, "tools": self.tools, **schema}

    def cut(self, answer: str | None) -> str | None:
        """Returns an answer up to the first text at which the request ends it."""
        ends = (
            [answer.index(text) for text in self.stop if text in answer]
            if answer is not None
            else []
        )
        return (
            answer[: min(ends)] if ends and answer is not None and self.schema is None else answer
        )

    @property
    def question(self) -> str:
        return next(text for text in _asked(reversed(self.messages)) if text.strip())


def read_chat_request(body: Mapping[str, Any], *, model: str) -> ChatRequest:
    """Returns the request in a body; raises `ApiError` if it asks for another model, or for what no group can do."""
    given = check_fields(body, known=KNOWN, refused=_REFUSED)
    check_model(given.get("model"), model)
    options = mapping_in(given, "stream_options")
    work = Room().take  # all schemas of a request share it
    tools, must_call = choose_tools(
        read_tools(given.get("tools", []), work), given.get("tool_choice", "auto")
    )
    messages = read_messages(given.get("messages"))
    return ChatRequest(
        messages=_instructed(messages, MUST_CALL) if must_call else messages,
        tools=tools,
        most_calls=None if _flag(given, "parallel_tool_calls", default=True) else 1,
        must_call=must_call,
        schema=read_format(given.get("response_format"), tools, work),
        stop=_read_stop(given.get("stop", [])),
        coe=mapping_in(given, "coe"),
        is_stream=_flag(given, "stream"),
        with_usage=_flag(options, "include_usage"),
        ignored=tuple(name for name in _HAS_NO_EFFECT if name in given),
    )


def check_fields(
    body: Mapping[str, Any],
    *,
    known: Sequence[str],
    refused: Mapping[str, tuple[Sequence[Any], str]],
) -> dict[str, Any]:
    """Returns the fields of a body that are not null; raises `ApiError` for one that is unknown or refused.

    `refused` holds, by name, the values that ask for nothing, and why others are refused.
    """
    given = {name: value for name, value in body.items() if value is not None}
    for name, value in given.items():
        if name not in known:
            near = did_you_mean(name, known)
            raise invalid_request(
                name, f'"{name}" is not supported: the field is unknown. {near or "Omit it"}'
            )
        if name in refused and value not in refused[name][0]:
            raise invalid_request(name, f'"{name}" is not supported: {refused[name][1]}. Omit it')
    return given


def check_model(name: object, model: str) -> None:
    """Refuses another name than that of the group by an `ApiError`."""
    if name != model:
        message = f'"model" must be "{model}", the only one here. GET /v1/models lists it'
        raise ApiError(404, message, param="model", code="model_not_found")


def _read_stop(given: Any) -> tuple[str, ...]:
    texts = [given] if isinstance(given, str) else given
    if (
        not isinstance(texts, list)
        or len(texts) > _MOST_STOPS
        or not all(isinstance(text, str) for text in texts)
    ):
        raise invalid_request(
            "stop", f'"stop" must be a text, or a list of at most {_MOST_STOPS}. Correct it'
        )
    return tuple(text for text in texts if text)


def _instructed(messages: list[dict[str, Any]], instruction: str) -> list[dict[str, Any]]:
    """Returns a conversation with an instruction at the end of its system prompt."""
    first, *rest = messages
    if first["role"] != "system":
        return [{"role": "system", "content": instruction}, *messages]
    return [{**first, "content": f"{first['content']}\n\n{instruction}"}, *rest]


def _asked(messages: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    return (message["content"] for message in messages if message["role"] == "user")


def read_messages(given: Any) -> list[dict[str, Any]]:
    """Returns a conversation as the graph takes it; raises `ApiError` if no question or result is at its end."""
    if not isinstance(given, list) or not given:
        raise invalid_request(
            "messages", '"messages" must be a list of at least one message. Add the question'
        )
    if len(given) > _MOST_MESSAGES:
        must = f'"messages" must hold at most {_MOST_MESSAGES}'
        raise invalid_request("messages", f"{must}; got {len(given)}. Omit earlier ones")
    messages = [_read_message(message, f"messages[{place}]") for place, message in enumerate(given)]
    check_results(messages)
    last = messages[-1]
    if last["role"] != "tool" and (last["role"] != "user" or not last["content"].strip()):
        must = 'the last of "messages" must be a text of the role "user", the question, or the result of a tool'
        raise invalid_request("messages", f"{must}. Add it")
    if not any(text.strip() for text in _asked(messages)):
        raise invalid_request(
            "messages", '"messages" must hold a text of the role "user": the question. Add it'
        )
    return messages


def _read_message(message: Any, place: str) -> dict[str, Any]:
    if not isinstance(message, Mapping) or message.get("role") not in (*_ROLES,):
        raise invalid_request(
            place, f'"role" of {place} must be one of {", ".join(_ROLES)}. Correct it'
        )
    if message.get("function_call") or message.get("audio"):
        raise invalid_request(
            place, f"{place} must be text: functions and audio are not supported. Omit them"
        )
    content, role = message.get("content"), _ROLES[message["role"]]
    if calls := message.get("tool_calls"):
        if role != "assistant":
            raise invalid_request(
                place, f'{place} must have the role "assistant" for its "tool_calls". Omit them'
            )
        text = "" if content is None else _text(content, f"{place}.content")
        return {
            "role": role,
            "content": text,
            "tool_calls": read_calls(calls, f"{place}.tool_calls"),
        }
    if role == "tool":
        result = _text(content, f"{place}.content")
        return {
            "role": role,
            "content": result,
            "tool_call_id": read_id(message, "tool_call_id", place),
        }
    if role == "assistant" and _is_refusal(message):
        return {
            "role": role,
            "content": "",
            "refusal": "withheld",
        }  # the graph shows no such turn to the agents
    return {"role": role, "content": _text(content, f"{place}.content")}


def _is_refusal(message: Mapping[str, Any]) -> bool:
    """Whether a message of the assistant is a refusal of this server, in any form in which clients return it.

    It is in "refusal", in a part of that type, in the text, or lost, so that the text is empty.
    """
    content = message.get("content")
    texts = [content]
    if isinstance(content, list):
        texts = [
            None
            if _is_part(part, "refusal")
            else part.get("text")
            if _is_part(part, "text")
            else part
            for part in content
        ]
    return all(
        text is None or (isinstance(text, str) and (not text.strip() or is_refusal(text)))
        for text in texts
    )


def _text(content: Any, place: str) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise invalid_request(
            place, f"{place} must be a string or a list of text parts. Correct it"
        )
    texts = []
    for part in content:
        text = next((part.get(kind) for kind in ("text", "refusal") if _is_part(part, kind)), None)
        if not isinstance(text, str):
            raise invalid_request(
                place, f"{place} must be text: images, audio and files are not supported. Omit them"
            )
        texts.append(text)
    return "\n".join(texts)


def _is_part(part: Any, kind: str) -> bool:
    return isinstance(part, Mapping) and part.get("type") == kind


def mapping_in(given: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Returns an object among the fields of a body; {} where it is omitted."""
    value = given.get(name, {})
    if not isinstance(value, Mapping):
        raise invalid_request(name, f'"{name}" must be an object. Correct it, or omit it')
    return value


def _flag(given: Mapping[str, Any], name: str, *, default: bool = False) -> bool:
    value = given.get(name)
    if not isinstance(value, bool | None):
        raise invalid_request(name, f'"{name}" must be true or false. Correct it, or omit it')
    return default if value is None else value
