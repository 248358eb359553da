"""Owns the body of a chat completion request: what the group can do, what has no effect, and what is refused.

Its tools, earlier calls and results are checked, too. What cannot be read is refused by an `ApiError`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from coe_agents.actions.canonical import Room
from coe_agents.actions.schemas import Work, check_schema
from coe_agents.actions.structured import ANSWER, check_answer_schema
from coe_agents.decision.refusal import is_refusal
from coe_agents.extensions import did_you_mean
from coe_agents.files import parse_strict_object
from coe_agents.graph.shown_tools import check_tools
from coe_agents.prompts import MUST_CALL
from coe_agents.serve.api_error import ApiError, invalid_request, unsupported_request
from coe_agents.types import Fields, JsonObject

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
"""As OpenAI's API allows."""
_MOST_CALLS = 128
_LONGEST_ID = 256


def read_tools(tools: Any, work: Work) -> list[JsonObject]:
    """Returns the functions of a request; [] where it has none."""
    if not isinstance(tools, list):
        raise invalid_request("tools", '"tools" must be a list', "Correct it, or omit it")
    for place, tool in enumerate(tools):
        where = f"tools[{place}]"
        if not isinstance(tool, Mapping) or tool.get("type") != "function":
            raise unsupported_request(
                where,
                f'{where} must have the type "function": other tools are not supported',
                "Omit it",
            )
        function = _function_of(tool)
        if not _is_name(function.get("name")):
            raise invalid_request(
                where,
                f"{where}.function must have a name of at most 64 letters, digits, _ and -",
                "Correct it",
            )
        _check_schema(function.get("parameters", {}), f'"parameters" of {where}', work, param=where)
    try:
        return check_tools(tools, where='"tools"') if tools else []
    except (TypeError, ValueError) as error:
        raise ApiError(400, str(error), param="tools", code="invalid_value") from error


def _function_of(holder: Any) -> Fields:
    """Returns the object "function" of a tool, a choice or a call; {} without one."""
    function = holder.get("function") if isinstance(holder, Mapping) else None
    return function if isinstance(function, Mapping) else {}


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def choose_tools(tools: list[JsonObject], choice: Any) -> tuple[list[JsonObject], bool]:
    """Returns the functions that a request lets the agents call, and whether they must call one."""
    if choice == "auto":
        return tools, False
    if choice == "none":
        return [], False
    if choice == "required":
        if not tools:
            raise invalid_request(
                "tool_choice",
                '"tool_choice" requires a call of "tools"',
                "Add it, or omit the choice",
            )
        return tools, True
    is_named = isinstance(choice, Mapping) and choice.get("type") == "function"
    if not is_named or not isinstance(choice.get("function"), Mapping):
        raise unsupported_request(
            "tool_choice",
            '"tool_choice" must be "none", "auto" or "required", or name a function: others are not supported',
            "Correct it",
        )
    name = choice["function"].get("name")
    named = [tool for tool in tools if tool["function"]["name"] == name]
    if not named:
        raise invalid_request(
            "tool_choice",
            '"tool_choice" must name a function of "tools"',
            "Add it, or omit the choice",
        )
    return named, True


def read_format(wanted: Any, tools: Sequence[Fields], work: Work) -> JsonObject | None:
    """Returns the schema that an answer must fit; None where it is a text."""
    kind = wanted.get("type") if isinstance(wanted, Mapping) else None
    if wanted is None or kind == "text":
        return None

    holder: Any = None
    if kind == "json_object":
        holder = {"schema": {"type": "object"}}
    elif kind == "json_schema":
        holder = wanted.get("json_schema")
    if not isinstance(holder, Mapping):
        raise unsupported_request(
            "response_format",
            '"response_format" must have the type "text", "json_object" or "json_schema", with a "json_schema": '
            "others are not supported",
            "Correct it",
        )
    if any(tool["function"]["name"] == ANSWER for tool in tools):
        raise invalid_request(
            "tools", f'no function may be called "{ANSWER}" beside a "response_format"', "Rename it"
        )
    schema: Any = holder.get("schema")
    _check_schema(schema, 'the schema of "response_format"', work, param="response_format")
    return dict(schema)


def _check_schema(schema: Any, what: str, work: Work, *, param: str) -> None:
    try:
        check_schema(schema)
        check_answer_schema(schema, where=what, work=work)
    except (TypeError, ValueError, RecursionError) as error:
        raise invalid_request(
            param, f"{what} must be a JSON schema of an object: {error}", "Correct it"
        ) from error


def read_calls(sent: Any, place: str) -> list[JsonObject]:
    """Returns the earlier calls of a message of the assistant."""
    if not isinstance(sent, list) or len(sent) > _MOST_CALLS:
        raise invalid_request(
            place, f"{place} must be a list of at most {_MOST_CALLS} calls", "Correct it"
        )
    calls = list[JsonObject]()
    for call in sent:
        function = _function_of(call)
        name = function.get("name")
        arguments = function.get("arguments")
        is_object = isinstance(arguments, str) and parse_strict_object(arguments) is not None
        if not _is_name(name) or not is_object:
            raise invalid_request(
                place,
                f'{place} must hold functions, with a name and "arguments" that are an object as a JSON string',
                "Send back what the server sent",
            )
        call_id = read_id(call, "id", place)
        kept = {"name": name, "arguments": arguments}
        calls.append({"id": call_id, "type": "function", "function": kept})
    return calls


def check_results(messages: Sequence[Fields]) -> None:
    """Refuses a conversation in which a call is not followed by its one result, or a result by no call."""
    place = "messages"
    open_calls = set[str]()
    for number, message in enumerate(messages):
        here = f"messages[{number}]"
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                raise invalid_request(
                    here,
                    f'{here} must follow the call that its "tool_call_id" names, and no other result of it',
                    "Add the call, or omit the result",
                )
            open_calls.remove(message["tool_call_id"])
            continue

        if open_calls:
            break
        place = here
        ids = [call["id"] for call in message.get("tool_calls", ())]
        open_calls = set(ids)
        if len(open_calls) < len(ids):
            raise invalid_request(
                place, f'the calls of {place} must have different "id"', "Correct them"
            )
    if open_calls:
        raise invalid_request(
            place,
            f'each call of {place} must be followed by a message of the role "tool" with its result',
            "Add it, or omit the calls",
        )


def read_id(message: Fields, name: str, place: str) -> str:
    """Returns the id of a call, or of the call whose result a message is."""
    value = message.get(name)
    if not isinstance(value, str) or not 1 <= len(value) <= _LONGEST_ID:
        raise invalid_request(
            place,
            f'"{name}" in {place} must be a text of at most {_LONGEST_ID} characters',
            "Add it",
        )
    return value


_HAS_NO_EFFECT = (
    "temperature",
    "top_p",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "max_tokens",
    "max_completion_tokens",
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
Refused: TypeAlias = Mapping[str, tuple[Sequence[Any], str]]
"""By the name of a field, its values that ask for nothing, and why others are refused."""
_REFUSED: Refused = {
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

    messages: list[JsonObject]
    tools: list[JsonObject]
    most_calls: int | None
    must_call: bool
    schema: JsonObject | None
    stop: tuple[str, ...]
    coe: Fields
    is_stream: bool
    with_usage: bool
    ignored: tuple[str, ...]

    @property
    def graph_input(self) -> JsonObject:
        """What the graph is asked."""
        content: JsonObject = {"messages": self.messages, "tools": self.tools}
        if self.schema is not None:
            content["answer_schema"] = self.schema
        return content

    def cut(self, answer: str) -> str:
        """Returns an answer up to the first text at which the request ends it."""
        if self.schema is not None:
            return answer
        ends = [answer.index(text) for text in self.stop if text in answer]
        return answer[: min(ends)] if ends else answer

    @property
    def question(self) -> str:
        texts = [text for text in _user_texts(self.messages) if text.strip()]
        return texts[-1]


def read_chat_request(body: Fields, *, model: str) -> ChatRequest:
    """Returns the request in a body; raises `ApiError` if it asks for another model, or for what no group can do."""
    fields = check_fields(body, known=KNOWN, refused=_REFUSED)
    check_model(fields.get("model"), model)
    options = mapping_in(fields, "stream_options")
    work = Room().take  # all schemas of a request share it
    tools = read_tools(fields.get("tools", []), work)
    tools, must_call = choose_tools(tools, fields.get("tool_choice", "auto"))
    messages = read_messages(fields.get("messages"))
    if must_call:
        messages = _instructed(messages, MUST_CALL)
    may_call_several = _flag(fields, "parallel_tool_calls", default=True)
    return ChatRequest(
        messages=messages,
        tools=tools,
        most_calls=None if may_call_several else 1,
        must_call=must_call,
        schema=read_format(fields.get("response_format"), tools, work),
        stop=_read_stop(fields.get("stop", [])),
        coe=mapping_in(fields, "coe"),
        is_stream=_flag(fields, "stream"),
        with_usage=_flag(options, "include_usage"),
        ignored=tuple(name for name in _HAS_NO_EFFECT if name in fields),
    )


def check_fields(body: Fields, *, known: Sequence[str], refused: Refused) -> JsonObject:
    """Returns the fields of a body that are not null; raises `ApiError` for one that is unknown or refused."""
    fields = {name: value for name, value in body.items() if value is not None}
    for name, value in fields.items():
        if name not in known:
            advice = did_you_mean(name, known) or "Omit it"
            raise unsupported_request(
                name, f'"{name}" is not supported: the field is unknown', advice
            )
        if name in refused:
            without_effect, why = refused[name]
            if value not in without_effect:
                raise unsupported_request(name, f'"{name}" is not supported: {why}', "Omit it")
    return fields


def check_model(name: object, model: str) -> None:
    """Refuses another name than that of the group by an `ApiError`."""
    if name != model:
        message = f'"model" must be "{model}", the only one here. GET /v1/models lists it'
        raise ApiError(404, message, param="model", code="model_not_found")


def _read_stop(stop: Any) -> tuple[str, ...]:
    texts = [stop] if isinstance(stop, str) else stop
    is_list = isinstance(texts, list) and len(texts) <= _MOST_STOPS
    if not is_list or not all(isinstance(text, str) for text in texts):
        raise invalid_request(
            "stop", f'"stop" must be a text, or a list of at most {_MOST_STOPS}', "Correct it"
        )
    return tuple(text for text in texts if text)


def _instructed(messages: list[JsonObject], instruction: str) -> list[JsonObject]:
    """Returns a conversation with an instruction at the end of its system prompt."""
    first, *others = messages
    if first["role"] != "system":
        return [{"role": "system", "content": instruction}, *messages]
    content = f"{first['content']}\n\n{instruction}"
    return [{**first, "content": content}, *others]


def _user_texts(messages: Sequence[Fields]) -> list[str]:
    return [message["content"] for message in messages if message["role"] == "user"]


def read_messages(sent: Any) -> list[JsonObject]:
    """Returns a conversation as the graph takes it; raises `ApiError` if no question or result is at its end."""
    if not isinstance(sent, list) or not sent:
        raise invalid_request(
            "messages", '"messages" must be a list of at least one message', "Add the question"
        )
    if len(sent) > _MOST_MESSAGES:
        raise invalid_request(
            "messages",
            f'"messages" must hold at most {_MOST_MESSAGES}; got {len(sent)}',
            "Omit earlier ones",
        )
    messages = list[JsonObject]()
    for place, message in enumerate(sent):
        messages.append(_read_message(message, f"messages[{place}]"))
    check_results(messages)

    last = messages[-1]
    is_question = last["role"] == "user" and last["content"].strip()
    if last["role"] != "tool" and not is_question:
        raise invalid_request(
            "messages",
            'the last of "messages" must be a text of the role "user", the question, or the result of a tool',
            "Add it",
        )
    if not any(text.strip() for text in _user_texts(messages)):
        raise invalid_request(
            "messages", '"messages" must hold a text of the role "user": the question', "Add it"
        )
    return messages


def _read_message(message: Any, place: str) -> JsonObject:
    # a list, since a role may be of any kind, also of one that cannot be looked up
    if not isinstance(message, Mapping) or message.get("role") not in list(_ROLES):
        raise invalid_request(
            place, f'"role" of {place} must be one of {", ".join(_ROLES)}', "Correct it"
        )
    if message.get("function_call") or message.get("audio"):
        raise unsupported_request(
            place, f"{place} must be text: functions and audio are not supported", "Omit them"
        )

    role = _ROLES[message["role"]]
    content = message.get("content")
    where = f"{place}.content"
    calls = message.get("tool_calls")
    if calls:
        if role != "assistant":
            raise invalid_request(
                place, f'{place} must have the role "assistant" for its "tool_calls"', "Omit them"
            )
        text = "" if content is None else _text(content, where)
        calls = read_calls(calls, f"{place}.tool_calls")
        return {"role": role, "content": text, "tool_calls": calls}
    if role == "tool":
        call_id = read_id(message, "tool_call_id", place)
        return {"role": role, "content": _text(content, where), "tool_call_id": call_id}
    if role == "assistant" and _is_refusal(message):
        # the graph shows no such turn to the agents
        return {"role": role, "content": "", "refusal": "withheld"}
    return {"role": role, "content": _text(content, where)}


def _is_refusal(message: Fields) -> bool:
    """Whether a message of the assistant is a refusal of this server, in any form in which clients return it.

    It is in "refusal", in a part of that type, in the text, or lost, so that the text is empty.
    """
    parts = message.get("content")
    if not isinstance(parts, list):
        parts = [{"type": "text", "text": parts}]
    for part in parts:
        if part is None or _is_part(part, "refusal"):
            continue
        text = part.get("text") if _is_part(part, "text") else part
        if text is None:
            continue
        if not isinstance(text, str) or (text.strip() and not is_refusal(text)):
            return False
    return True


def _text(content: Any, place: str) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise invalid_request(
            place, f"{place} must be a string or a list of text parts", "Correct it"
        )
    texts = list[str]()
    for part in content:
        text = None
        for kind in ("text", "refusal"):
            if _is_part(part, kind):
                text = part.get(kind)
        if not isinstance(text, str):
            raise unsupported_request(
                place,
                f"{place} must be text: images, audio and files are not supported",
                "Omit them",
            )
        texts.append(text)
    return "\n".join(texts)


def _is_part(part: Any, kind: str) -> bool:
    return isinstance(part, Mapping) and part.get("type") == kind


def mapping_in(fields: Fields, name: str) -> Fields:
    """Returns an object among the fields of a body; {} where it is omitted."""
    value = fields.get(name, {})
    if not isinstance(value, Mapping):
        raise invalid_request(name, f'"{name}" must be an object', "Correct it, or omit it")
    return value


def _flag(fields: Fields, name: str, *, default: bool = False) -> bool:
    value = fields.get(name)
    if not isinstance(value, bool | None):
        raise invalid_request(name, f'"{name}" must be true or false', "Correct it, or omit it")
    return default if value is None else value
