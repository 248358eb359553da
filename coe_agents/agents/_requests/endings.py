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

from coe_agents.types import End

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

_SAYS_HOW = re.compile(r"\w*(?:finish|stop|done|completion)reason|finishdetails|status")
"""Fields whose word says how the reply ended; names are compared without case, "_" and "-"."""
_SAYS_WHY_NOT: Mapping[str, Ending] = {
    "incompletedetails": "cut",
    "blockreason": "filtered",
    "amazonbedrockguardrailaction": "filtered",
    "refusal": "filtered",
    **dict.fromkeys(
        ("blocked", "isblocked", "filtered"), "filtered"
    ),  # true in a rating of Gemini's or Azure's
}
"""Fields that say something only of a reply that is not whole, which is then at least this."""
_NOTHING = ("none", "blockreasonunspecified", "blockedreasonunspecified")
"""Words by which such a field says nothing."""
_SAYS_NOTHING = ("logprobs", "headers", "tools", "toolcalls", "functioncall", "parsed")
"""Fields of other contents: what a caller, a tool or the model wrote there says nothing about the end."""
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
    message = reply if isinstance(reply, BaseMessage) else getattr(reply, "message", None)
    endings: set[Ending] = {"whole", *_endings(getattr(reply, "generation_info", None), 0)}
    if isinstance(message, BaseMessage):
        endings.update(
            _endings(message.response_metadata, 0), _endings(message.additional_kwargs, 0)
        )
        if message.response_metadata.get("error"):
            endings.add("error")
        if _refusals(message):
            endings.add("filtered")
    return max(endings, key=_FROM_BEST.index)


def refusal_of(message: BaseMessage) -> str:
    """Returns in what words the provider says that the model refuses; "" where it says none."""
    said = message.additional_kwargs.get("refusal")
    if not said:
        said = next((block.get("refusal") for block in _refusals(message)), "")
    return said.strip() if isinstance(said, str) else ""


def _refusals(message: BaseMessage) -> list[Mapping[str, Any]]:
    """Returns the blocks of a message's content that are refusals, as OpenAI's Responses API writes them."""
    blocks = message.content if isinstance(message.content, list) else []
    said = [block for block in blocks if isinstance(block, Mapping)]
    return [block for block in said if block.get("type") == "refusal" or block.get("refusal")]


def _endings(said: Any, depth: int) -> Iterator[Ending]:
    """Yields what each field of metadata says about the end, at any depth."""
    if depth > _DEEPEST:
        yield "unknown"
    elif isinstance(said, Mapping):
        for key, value in said.items():
            name = _plain(key)
            if name in _SAYS_NOTHING or not value or (isinstance(value, str) and not value.strip()):
                continue
            if _SAYS_HOW.fullmatch(name):
                yield _ending_of(value)
            elif (least := _SAYS_WHY_NOT.get(name)) is not None:
                if _plain(value) not in _NOTHING:
                    yield least
                    yield _ending_of(value) if least == "cut" else least
            else:
                yield from _endings(value, depth + 1)
    elif isinstance(said, list | tuple):
        for value in said:
            yield from _endings(value, depth + 1)


def _ending_of(value: Any) -> Ending:
    """Returns what the value of a field that says how a reply ended means."""
    if isinstance(value, Mapping):  # {"type": "stop"}, {"reason": "max_output_tokens"}
        value = value.get("reason") or value.get("type")
    if not isinstance(value, str | Enum):
        return "unknown"
    word = _plain(value.name if isinstance(value, Enum) else value)
    if _WHOLE.fullmatch(word):
        return "whole"
    return next((ending for ending, part in _OTHERS if part.search(word)), "unknown")


def _plain(word: object) -> str:
    return re.sub(r"[\W_]", "", str(word)).casefold()
