"""Owns the step from a model's generations to our responses: text, tool calls, log-probability, usage, anomalies."""

import hashlib
import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate, chain
from typing import Any, cast

from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, Generation

from coe_agents.actions.canonical import to_line
from coe_agents.actions.proposals import check_proposal
from coe_agents.agents._requests.capabilities import Drawn, Ladder
from coe_agents.checks import are_finite
from coe_agents.clustering.answers import split_confidence
from coe_agents.clustering.refusals import answer_kind
from coe_agents.errors import INVALID, InvalidReplyError
from coe_agents.files import parse_json
from coe_agents.types import AgentReply, AgentRequest, Response, Rung, Sampling, add_usages, create_response, usage_of

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
    drawn: Drawn, ladder: Ladder, request: AgentRequest, *, agent: str, max_chars: int, states_confidence: bool = False
) -> AgentReply:
    """Returns the reply of an agent; `states_confidence`: whether it was asked to end in its confidence."""
    most = request["n_samples"]
    generations = [generation for one in drawn.results for generation in one.generations[0]][:most]
    texts = [[text_of(generation) for generation in one.generations[0]] for one in drawn.results]
    refusals = [_refusals(one.generations[0], own) for one, own in zip(drawn.results, texts, strict=True)]
    said = list(zip(generations, chain(*texts), chain(*refusals), strict=False))
    how: dict[str, Any] = {"agent": agent, "max_chars": max_chars, "states_confidence": states_confidence}
    responses = [_response(*each, request, index, **how) for index, each in enumerate(said)]
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
        n_truncated=sum(_is_truncated(generation) for generation in generations),
        n_cut=sum(len(text) > max_chars for _, text, _ in said),
        n_invalid_calls=len(responses) - len(valid),
        logprobs_missing=known.count(False),
        refused=list(ladder.refused),
        ignores_temperature=None,
        probe=None,
        counted="each",
        error=None if drawn.failure is None else f"{type(drawn.failure).__name__}: {drawn.failure}",
    )
    reply = AgentReply(responses=responses, usage=add_usages(map(usage_of, answered)), sampling=sampling)
    if "tools" in request:
        pairs = zip(responses, generations, strict=True)
        reply["messages"] = {row["index"]: one.message for row, one in pairs if isinstance(one, ChatGeneration)}
    return reply


def _response(
    generation: Generation,
    said: str,
    refused: str,
    request: AgentRequest,
    index: int,
    *,
    agent: str,
    max_chars: int,
    states_confidence: bool,
) -> Response:
    place: dict[str, Any] = {"round": request["round"], "index": index}
    calls: list[dict[str, Any]] | None = None
    action: str | None = None
    if "tools" in request and isinstance(generation, ChatGeneration):
        try:
            check = to_line if request.get("parses_calls") else partial(check_proposal, tools=request["tools"])
            calls, action = read_proposal(cast("AIMessage", generation.message), check)
            if calls and _is_truncated(generation):  # more calls may have followed
                raise InvalidReplyError(f"{INVALID}: it was cut off by the model's limit")
        except InvalidReplyError as error:
            return create_response(agent, "", error=f"InvalidReplyError: {error}", **place)
    if refused:
        # in other words than ours it would not be recognised, and must not pass for an answer, or for a choice
        text, answer = (refused, None) if answer_kind(refused) == "refusal" else (f"{_REFUSED} {refused}", _REFUSED)
        return create_response(agent, _shorten(text, max_chars), answer=action or answer, calls=calls, **place)
    answered, confidence = split_confidence(said) if states_confidence else (said, None)
    text = _shorten(answered, max_chars)
    if "choices" in request and _is_truncated(generation):  # it must not pass for a whole choice
        text += "… [cut off by the model's limit]"
    logprob, n_tokens = _log_probability(generation, said, len(answered) if answered != said else None)
    confidence = None if _is_truncated(generation) else confidence
    known: dict[str, Any] = {"logprob": logprob, "n_tokens": n_tokens, "confidence": confidence}
    return create_response(agent, text, answer=action, calls=calls, **known, **place)


def read_proposal(message: AIMessage, check: Callable[[list[dict[str, Any]]], str]) -> tuple[list[dict[str, Any]], str]:
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
    functions = [call.get("function") for call in sent if isinstance(call, Mapping)] if isinstance(sent, list) else []
    arguments = [function.get("arguments") for function in functions if isinstance(function, Mapping)]
    return [text for text in arguments if isinstance(text, str) and text.strip()]


def _invalid(why: str) -> InvalidReplyError:
    hint = "Check the model's tool calls, for example the server's tool-call parser"
    return InvalidReplyError(f"{INVALID}: {why}", hint=hint, retryable=False)


def _refusals(generations: Sequence[Generation], texts: Sequence[str]) -> list[str]:
    """Returns for each generation how the provider says that the model refuses; "" for any other.

    It refuses where it has no text, or where the text was filtered, which is how `coe_agents.serve` marks that an inner
    group did not answer. Of several choices, LangChain keeps the refusal of the first one only: it is that of those
    without text, too.
    """
    pairs = zip(generations, texts, strict=True)
    spoken = [bool(text.strip()) and _end_of(one) != "content_filter" for one, text in pairs]
    if all(spoken):  # mostly
        return [""] * len(spoken)
    first = _refusal(generations[0])
    return [
        "" if said else _refusal(one) or text.strip() or first
        for one, text, said in zip(generations, texts, spoken, strict=True)
    ]


def _refusal(generation: Generation) -> str:
    if not isinstance(generation, ChatGeneration):
        return ""
    said = generation.message.additional_kwargs.get("refusal")
    if not said and isinstance(content := generation.message.content, list):  # of OpenAI's Responses API
        said = next((part.get("refusal") for part in content if isinstance(part, Mapping) and part.get("refusal")), "")
    return said.strip() if isinstance(said, str) else ""


def text_of(generation: Generation) -> str:
    return str(generation.message.text) if isinstance(generation, ChatGeneration) else generation.text


def is_cut(reply: AgentReply) -> bool:
    sampling = reply.get("sampling")
    return sampling is not None and sampling["n_truncated"] + sampling["n_cut"] > 0


def _shorten(text: str, max_chars: int) -> str:
    """Returns a long text cut, with a hash of the whole, so that texts that differ in the rest stay different."""
    if len(text) <= max_chars:
        return text
    digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:12]
    return f"{text[:max_chars]}… [cut from {len(text)} characters, {digest}]"


def _is_truncated(generation: Generation) -> bool:
    return _end_of(generation) in ("length", "max_tokens")


def _end_of(generation: Generation) -> Any:
    """Returns why a response ends, in the provider's word."""
    said: Mapping[str, Any] = generation.generation_info or {}
    if isinstance(generation, ChatGeneration):
        said = {**generation.message.response_metadata, **said}
    return said.get("finish_reason") or said.get("stop_reason")


def _log_probability(generation: Generation, said: str, end: int | None) -> tuple[float | None, int | None]:
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
