"""Owns the judgement of how a reply ended, by what its provider says: whole, cut off, filtered, failed, or unknown.

Only words that are known to mean "whole" do so; every other word leaves the reply less than whole. The other tables
only tell apart what is said of it. A reply of which nothing is said, as of a local model's, is whole.
"""

import re
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Literal, TypeAlias

from langchain_core.messages import BaseMessage
from langchain_core.outputs import Generation

from coe_agents.types import End, Fields

Ending: TypeAlias = End | Literal["error"]
"""How a reply ended; of "error", the reply is no response."""

_FROM_BEST: tuple[Ending, ...] = ("whole", "cut", "unknown", "filtered", "error")
"""Where several fields speak, the worst counts."""

_WHOLE = re.compile(
    # streams join the words of their chunks: "STOPSTOP"
    "(?:(?:finishreason|stopreason)?(?:"
    "stop|toolcalls?|functioncall|completed?"  # OpenAI, Mistral, Ollama, Gemini, Cohere; its Responses API
    "|endturn|stopsequence|tooluse"  # Anthropic, Bedrock
    "|eos|eostoken|endoftext|finish|finished|normal|succeeded"  # TGI, watsonx, Together, AI21, Titan, ERNIE
    "|eot|endofturn|word|success"  # Llama's own token, llama.cpp, gateways
    "))+"
)
_OTHERS: tuple[tuple[Ending, re.Pattern[str]], ...] = (
    (
        "filtered",
        re.compile(
            "filter|safe|recitation|refus|guardrail|block|blacklist|prohibit|spii|toxic|harm|moderat|sensitiv|policy|violat"
        ),
    ),
    ("cut", re.compile("length|max|limit|incomplete|truncat|exceed|timeout")),
    ("error", re.compile("error|fail")),
)
"""Parts of the words that mean something else, the first that fits; a word without any of them is unknown."""

_SAYS_HOW = re.compile(
    r"\w*(?:finish(?:ed)?|stop(?:ped|ping)?|done|completion|terminat(?:ed|ion))(?:reason|cause|type|status)"
    "|(?:end|exit)reason|(?:finish|stop)details|(?:generation|response)?status"
)
"""Fields whose word says how the reply ended; names are compared without case, "_" and "-"."""
_SAYS_WHETHER = re.compile("(?:is)?(?:done|finished|completed?)")
"""Fields that are false where the reply has not ended."""
_OF_A_LIMIT = (
    "incompletedetails",
    "truncated",
    "istruncated",
    "incomplete",
    "interrupted",
    "stoppedlimit",
)
_OF_A_FILTER = (
    "blockreason",
    "guardrailaction",
    "amazonbedrockguardrailaction",
    "refusal",
    # true in a rating of Gemini's or Azure's
    "blocked",
    "isblocked",
    "filtered",
)
_SAYS_WHY_NOT: Mapping[str, Ending] = {
    **dict.fromkeys(_OF_A_LIMIT, "cut"),
    **dict.fromkeys(_OF_A_FILTER, "filtered"),
}
"""Fields that say something only of a reply that is not whole, which is then at least this."""
_NOTHING = ("none", "blockreasonunspecified", "blockedreasonunspecified")
"""Words by which such a field says nothing."""
_SAYS_NOTHING = ("logprobs", "headers", "tools", "toolcalls", "functioncall", "parsed")
"""Fields of other contents: what a caller, a tool or the model wrote there says nothing about the end."""
_OF_A_REPLY = (
    "text",
    "output_text",
    "message",
    "tool_call",
    "tool_use",
    "function_call",
    "custom_tool_call",
)
"""Blocks of a reply whose own status says whether they are whole; that of another one is of what a tool did."""
_DEEPEST = 20


IN_WORDS: Mapping[Ending, str] = {
    "cut": "it was cut off by a limit",
    "filtered": "its provider filtered it, or it is a refusal",
    "unknown": "its provider does not say in known words that it is whole",
    "error": "its provider says that it failed",
}
"""Why a reply is not whole."""


def judge_end(reply: Generation | BaseMessage) -> Ending:
    """Returns how a reply ended, by all that its metadata say; it is untrusted.

    Example:
        >>> from langchain_core.messages import AIMessage
        >>> judge_end(AIMessage("Yes", response_metadata={"finish_reason": "stop"})), judge_end(AIMessage("Yes"))
        ('whole', 'whole')
        >>> judge_end(AIMessage("Ye", response_metadata={"done_reason": "length"}))
        'cut'
        >>> judge_end(AIMessage("Yes", response_metadata={"finishReason": "something new"}))
        'unknown'
    """
    endings: set[Ending] = {"whole", *_endings(getattr(reply, "generation_info", None), 0)}
    message = reply if isinstance(reply, BaseMessage) else getattr(reply, "message", None)
    if isinstance(message, BaseMessage):
        endings.update(_endings(message.response_metadata, 0))
        endings.update(_endings(message.additional_kwargs, 0))
        if message.response_metadata.get("error"):
            endings.add("error")
        if _refusals(message):
            endings.add("filtered")
        endings.update(_endings_of_blocks(message))
    return max(endings, key=_FROM_BEST.index)


def refusal_of(message: BaseMessage) -> str:
    """Returns in what words the provider says that the model refuses; "" where it says none."""
    words = message.additional_kwargs.get("refusal")
    blocks = _refusals(message)
    if not words and blocks:
        words = blocks[0].get("refusal")
    return words.strip() if isinstance(words, str) else ""


def _endings_of_blocks(message: BaseMessage) -> Iterator[Ending]:
    """Yields what the blocks of a message's content say about the end, as OpenAI's Responses API writes it."""
    if not isinstance(message.content, list):
        return
    for block in message.content:
        if not isinstance(block, Mapping) or block.get("type") not in _OF_A_REPLY:
            continue
        for part in (block, block.get("extras")):  # LangChain's own form has it there
            if isinstance(part, Mapping):
                yield from _endings_of_field("status", part.get("status"), 0)


def _refusals(message: BaseMessage) -> list[Fields]:
    """Returns the blocks of a message's content that are refusals, as OpenAI's Responses API writes them."""
    refusals = list[Fields]()
    if isinstance(message.content, list):
        for block in message.content:
            if not isinstance(block, Mapping):
                continue
            if block.get("type") == "refusal" or block.get("refusal"):
                refusals.append(block)
    return refusals


def _endings(metadata: Any, depth: int) -> Iterator[Ending]:
    """Yields what each field of metadata says about the end, at any depth."""
    if depth > _DEEPEST:
        yield "unknown"
    elif isinstance(metadata, Mapping):
        for key, value in metadata.items():
            yield from _endings_of_field(_plain(key), value, depth)
    elif isinstance(metadata, list | tuple):
        for value in metadata:
            yield from _endings(value, depth + 1)


def _endings_of_field(name: str, value: Any, depth: int) -> Iterator[Ending]:
    if value is False and _SAYS_WHETHER.fullmatch(name):
        yield "cut"
    is_blank = not value or (isinstance(value, str) and not value.strip())
    if is_blank or name in _SAYS_NOTHING:
        return
    if _SAYS_HOW.fullmatch(name):
        yield _ending_of(value)
    # inside of such a field others may say more
    least = _SAYS_WHY_NOT.get(name)
    if least is None:
        yield from _endings(value, depth + 1)
    elif _plain(value) not in _NOTHING:
        yield least
        if least == "cut" and value is not True:  # its words may say that it was filtered
            yield _ending_of(value)


def _ending_of(value: Any) -> Ending:
    """Returns what the value of a field that says how a reply ended means."""
    if isinstance(value, Mapping):  # {"type": "stop"}, {"reason": "max_output_tokens"}
        value = value.get("reason") or value.get("type")
    if isinstance(value, Enum):
        value = value.name
    if not isinstance(value, str):
        return "unknown"
    word = _plain(value)
    if _WHOLE.fullmatch(word):
        return "whole"
    for ending, part in _OTHERS:
        if part.search(word):
            return ending
    return "unknown"


def _plain(word: object) -> str:
    return re.sub(r"[\W_]", "", str(word)).casefold()
