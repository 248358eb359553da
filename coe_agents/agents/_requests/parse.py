"""Owns the step from a model's generations to our responses: text, tool calls, log-probability, usage, anomalies."""

import hashlib
import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, cast

from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, Generation

from coe_agents.actions.canonical import to_line
from coe_agents.actions.proposals import check_proposal
from coe_agents.agents._requests.capabilities import Drawn, Ladder
from coe_agents.agents._requests.endings import IN_WORDS, Ending, judge_end, refusal_of
from coe_agents.checks import are_finite
from coe_agents.clustering.answers import split_confidence
from coe_agents.clustering.refusals import answer_kind
from coe_agents.errors import InvalidReplyError, invalid_proposal
from coe_agents.files import parse_json
from coe_agents.types import (
    AgentReply,
    AgentRequest,
    Response,
    Rung,
    Sampling,
    add_usages,
    create_response,
    end_of,
    usage_of,
)

_REFUSED = "I can't answer this."
"""The answer of a refusal whose own words would not be recognised as one."""
_RUNGS: dict[tuple[bool, bool], Rung] = {
    (True, True): "n-logprobs",
    (True, False): "n",
    (False, True): "each-logprobs",
    (False, False): "each",
}
"""By whether one request brings several responses, and whether they have log-probabilities."""
_ROUNDING = 1e-3
"""How far above 0 a log-probability may be by rounding."""


def to_reply(
    drawn: Drawn,
    ladder: Ladder,
    request: AgentRequest,
    *,
    agent: str,
    max_chars: int,
    states_confidence: bool = False,
) -> AgentReply:
    """Returns the reply of an agent; `states_confidence`: whether it was asked to end in its confidence."""
    most = request["n_samples"]
    replies = [reply for one in drawn.results for reply in _read(one.generations[0])][:most]
    how: dict[str, Any] = {
        "agent": agent,
        "max_chars": max_chars,
        "states_confidence": states_confidence,
    }
    responses = [_response(reply, request, index, **how) for index, reply in enumerate(replies)]
    answered = [*drawn.results, *drawn.unused]
    valid = [response for response in responses if response["error"] is None]
    known = [response["logprob"] is not None for response in valid]
    sampling = Sampling(
        round=request["round"],
        rung=_RUNGS[ladder.takes_several, any(known)],
        n_requested=most,
        n_received=len(responses),
        n_requests=len(answered),
        n_empty=sum(not response["text"].strip() and not response["calls"] for response in valid),
        n_truncated=sum(response["end"] in ("cut", "unknown") for response in valid),
        n_cut=sum(len(reply.text) > max_chars for reply in replies),
        n_invalid_calls=len(responses) - len(valid),
        logprobs_missing=known.count(False),
        refused=list(ladder.refused),
        ignores_temperature=None,
        probe=None,
        counted="each",
        error=None if drawn.failure is None else f"{type(drawn.failure).__name__}: {drawn.failure}",
    )
    result = AgentReply(
        responses=responses, usage=add_usages(map(usage_of, answered)), sampling=sampling
    )
    if "tools" in request:
        pairs = [
            (row["index"], one.generation) for row, one in zip(responses, replies, strict=True)
        ]
        result["messages"] = {
            index: one.message for index, one in pairs if isinstance(one, ChatGeneration)
        }
    return result


@dataclass(frozen=True, slots=True)
class _Reply:
    """One of a model's generations, read.

    Attributes:
        refused: In what words the model refuses; "" where it does not, and where there are none.
    """

    generation: Generation
    text: str
    ending: Ending
    refused: str


def _read(generations: Sequence[Generation]) -> Iterator[_Reply]:
    """Yields what the choices of one request say.

    A choice refuses where it was filtered, which is how `coe_agents.serve`, too, marks that an inner group did not
    answer. Of several, LangChain keeps the refusal of the first one only: it is that of those without text, too.
    """
    first = _refusal(generations[0])
    for generation in generations:
        text, ending = text_of(generation), judge_end(generation)
        if ending == "filtered":
            refused = _refusal(generation) or text.strip() or first
        else:
            refused = "" if text.strip() else first
        yield _Reply(generation, text, ending, refused)


def _refusal(generation: Generation) -> str:
    return refusal_of(generation.message) if isinstance(generation, ChatGeneration) else ""


def _response(
    reply: _Reply,
    request: AgentRequest,
    index: int,
    *,
    agent: str,
    max_chars: int,
    states_confidence: bool,
) -> Response:
    generation, ending = reply.generation, reply.ending
    place: dict[str, Any] = {"round": request["round"], "index": index}
    calls: list[dict[str, Any]] | None = None
    action: str | None = None
    if ending == "error":
        error = "InvalidReplyError: the model's provider says that the reply failed"
        return create_response(agent, "", error=error, fault="failed", **place)
    if "tools" in request and isinstance(generation, ChatGeneration):
        try:
            check = (
                to_line
                if request.get("parses_calls")
                else partial(check_proposal, tools=request["tools"])
            )
            calls, action = read_proposal(cast("AIMessage", generation.message), check)
            if calls and ending != "whole":  # more calls may have followed
                raise invalid_proposal(IN_WORDS[ending])
        except InvalidReplyError as invalid:
            error = f"InvalidReplyError: {invalid}"
            return create_response(agent, "", error=error, end=ending, fault=invalid.fault, **place)
    if reply.refused:
        # in other words than ours it would not be recognised, and must not pass for an answer, or for a choice
        text, answer = reply.refused, None
        if answer_kind(text) != "refusal":
            text, answer = f"{_REFUSED} {text}", _REFUSED
        short = _shorten(text, max_chars)
        return create_response(
            agent, short, answer=action or answer, calls=calls, end="filtered", **place
        )
    answered, confidence = split_confidence(reply.text) if states_confidence else (reply.text, None)
    text = _shorten(answered, max_chars)
    logprob, n_tokens = _log_probability(
        generation, reply.text, len(answered) if answered != reply.text else None
    )
    confidence = confidence if ending == "whole" else None
    known: dict[str, Any] = {
        "logprob": logprob,
        "n_tokens": n_tokens,
        "confidence": confidence,
        "end": ending,
    }
    return create_response(agent, text, answer=action, calls=calls, **known, **place)


def read_proposal(
    message: AIMessage, check: Callable[[list[dict[str, Any]]], str]
) -> tuple[list[dict[str, Any]], str]:
    """Returns the calls of a message, each with "name" and "args", and their canonical form.

    Args:
        message: Untrusted.
        check: Returns the canonical form of the calls; raises ValueError or TypeError where they are refused.

    Raises:
        InvalidReplyError: A call cannot be read, for example because its JSON names an argument twice, or is refused.
    """
    if message.invalid_tool_calls:
        name = message.invalid_tool_calls[0].get("name")
        why = message.invalid_tool_calls[0].get("error") or "its arguments are not JSON"
        raise _invalid(f"the call of {str(name)[:80]!r} cannot be read: {str(why)[:200]}")
    calls = [{"name": call["name"], "args": call["args"]} for call in message.tool_calls]
    try:
        for arguments in _as_sent(message):
            parse_json(arguments, is_strict=True)
        return calls, check(calls)
    except (ValueError, TypeError, RecursionError) as error:
        raise _invalid(str(error)) from error


def _as_sent(message: AIMessage) -> list[str]:
    """Returns the JSON of arguments as OpenAI's API sends it; LangChain's parser hides repeated names."""
    sent = message.additional_kwargs.get("tool_calls")
    functions = (
        [call.get("function") for call in sent if isinstance(call, Mapping)]
        if isinstance(sent, list)
        else []
    )
    arguments = [
        function.get("arguments") for function in functions if isinstance(function, Mapping)
    ]
    return [text for text in arguments if isinstance(text, str) and text.strip()]


def _invalid(why: str) -> InvalidReplyError:
    hint = "Check the model's tool calls, for example the server's tool-call parser"
    return invalid_proposal(why, hint=hint)


def text_of(generation: Generation) -> str:
    return (
        str(generation.message.text) if isinstance(generation, ChatGeneration) else generation.text
    )


def is_cut(reply: AgentReply) -> bool:
    """Returns whether a response is not whole, or was cut to the most characters."""
    sampling = reply.get("sampling")
    is_short = sampling is not None and sampling["n_cut"] > 0
    return is_short or any(end_of(response) != "whole" for response in reply["responses"])


def _shorten(text: str, max_chars: int) -> str:
    """Returns a long text cut, with a hash of the whole, so that texts that differ in the rest stay different."""
    if len(text) <= max_chars:
        return text
    digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:12]
    return f"{text[:max_chars]}… [cut from {len(text)} characters, {digest}]"


def _log_probability(
    generation: Generation, said: str, end: int | None
) -> tuple[float | None, int | None]:
    """Returns the sum of the tokens' log-probabilities and their number; None where one is missing or invalid.

    With an `end`, the tokens are those of `said[:end]` alone: up to the one in which it ends. None where they are not
    known, since the tokens' texts, which may be in parts of characters, are not that text.
    """
    tokens = tokens_of(generation)
    if end is not None:
        tokens = tokens[: _count_tokens([token.get("token") for token in tokens], said, end)]
    if not tokens:
        return None, None
    values: list[Any] = [token.get("logprob") for token in tokens]
    if not are_finite(values) or max(values) > _ROUNDING:
        return None, None
    return min(math.fsum(values), 0.0), len(values)


def _count_tokens(texts: Sequence[object], said: str, end: int) -> int:
    """Returns how many tokens cover `said[:end]`; 0 where that is not known."""
    if end == 0 or not all(isinstance(text, str) for text in texts):
        return 0
    ends = list(accumulate(len(str(text)) for text in texts))
    joined = "".join(map(str, texts))
    # some clients strip the text
    lead = len(joined) - len(joined.lstrip()) - (len(said) - len(said.lstrip()))
    if lead < 0 or joined[lead : lead + end] != said[:end]:
        return 0
    return bisect_left(ends, lead + end) + 1


def tokens_of(generation: Generation) -> Sequence[Mapping[str, Any]]:
    """Returns what is known of the tokens, in the shape that `ChatOpenAI` gives it; nothing where it is not there."""
    given = (generation.generation_info or {}).get("logprobs")
    content = given.get("content") if isinstance(given, Mapping) else None
    return content or ()
