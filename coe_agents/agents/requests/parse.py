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
from coe_agents.agents.requests.capabilities import Drawn, Ladder
from coe_agents.agents.requests.endings import IN_WORDS, Ending, judge_end, refusal_of
from coe_agents.checks import are_finite
from coe_agents.clustering.answers import split_confidence
from coe_agents.clustering.refusals import answer_kind
from coe_agents.errors import InvalidReplyError, invalid_proposal
from coe_agents.files import parse_json
from coe_agents.types import (
    AgentReply,
    AgentRequest,
    Fields,
    JsonObject,
    Response,
    Rung,
    Sampling,
    add_usages,
    create_response,
    end_of,
    usable,
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
    max_tokens: int | None = None,
    states_confidence: bool = False,
) -> AgentReply:
    """Returns the reply of an agent; `states_confidence`: whether it was asked to end in its confidence."""
    replies = list[_Reply]()
    for result in drawn.results:
        replies += _read(result.generations[0])
    replies = replies[: request["n_samples"]]

    responses = list[Response]()
    for index, reply in enumerate(replies):
        place = _Place(agent, request["round"], index, max_chars)
        responses.append(_response(reply, request, place, states_confidence=states_confidence))
    sampling = _describe_sampling(drawn, ladder, request, responses)
    sampling["n_cut"] = sum(len(reply.text) > max_chars for reply in replies)
    sampling["max_tokens"] = max_tokens
    usage = add_usages(map(usage_of, drawn.answered))
    agent_reply = AgentReply(responses=responses, usage=usage, sampling=sampling)
    if "tools" in request:
        messages = agent_reply["messages"] = {}
        for index, reply in enumerate(replies):
            if isinstance(reply.generation, ChatGeneration):
                messages[index] = reply.generation.message
    return agent_reply


def _describe_sampling(
    drawn: Drawn, ladder: Ladder, request: AgentRequest, responses: Sequence[Response]
) -> Sampling:
    valid = usable(responses)
    logprobs_missing = sum(response["logprob"] is None for response in valid)
    has_logprobs = logprobs_missing < len(valid)
    n_empty = 0
    for response in valid:
        has_text = bool(response["text"].strip())
        if not has_text and not response["calls"]:
            n_empty += 1
    failure = None
    if drawn.failure is not None:
        failure = f"{type(drawn.failure).__name__}: {drawn.failure}"
    return Sampling(
        round=request["round"],
        rung=_RUNGS[ladder.takes_several, has_logprobs],
        n_requested=request["n_samples"],
        n_received=len(responses),
        n_requests=len(drawn.answered),
        n_empty=n_empty,
        n_truncated=sum(response["end"] in ("cut", "unknown") for response in valid),
        n_cut=0,
        n_invalid_calls=len(responses) - len(valid),
        logprobs_missing=logprobs_missing,
        refused=list(ladder.refused),
        ignores_temperature=None,
        probe=None,
        counted="each",
        error=failure,
    )


@dataclass(frozen=True, slots=True)
class _Place:
    """Which of an agent's responses is made, and how long it may be."""

    agent: str
    round: int
    index: int
    max_chars: int

    def response(self, text: str, **known: Any) -> Response:
        """Returns the response of this place; a long text is cut."""
        text = _shorten(text, self.max_chars)
        return create_response(self.agent, text, round=self.round, index=self.index, **known)


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
    refusal_of_first = _refusal(generations[0])
    for generation in generations:
        text = text_of(generation)
        ending = judge_end(generation)
        refused = ""
        if ending == "filtered":
            refused = _refusal(generation) or text.strip() or refusal_of_first
        elif not text.strip():
            refused = refusal_of_first
        yield _Reply(generation, text, ending, refused)


def _refusal(generation: Generation) -> str:
    return refusal_of(generation.message) if isinstance(generation, ChatGeneration) else ""


def _response(
    reply: _Reply, request: AgentRequest, place: _Place, *, states_confidence: bool
) -> Response:
    ending = reply.ending
    if ending == "error":
        error = "InvalidReplyError: the model's provider says that the reply failed"
        return place.response("", error=error, fault="failed")
    calls: list[JsonObject] | None = None
    action: str | None = None
    if "tools" in request and isinstance(reply.generation, ChatGeneration):
        check: Callable[[list[JsonObject]], str] = to_line
        if not request.get("parses_calls"):
            check = partial(check_proposal, tools=request["tools"])
        try:
            calls, action = read_proposal(cast("AIMessage", reply.generation.message), check)
            if calls and ending != "whole":  # more calls may have followed
                raise invalid_proposal(IN_WORDS[ending])
        except InvalidReplyError as invalid:
            error = f"InvalidReplyError: {invalid}"
            return place.response("", error=error, end=ending, fault=invalid.fault)

    if reply.refused:
        # in other words than ours it would not be recognised, and must not pass for an answer, or for a choice
        text = reply.refused
        if answer_kind(text) != "refusal":
            text = f"{_REFUSED} {text}"
            action = action or _REFUSED
        return place.response(text, answer=action, calls=calls, end="filtered")

    text = reply.text
    confidence = None
    if states_confidence:
        text, confidence = split_confidence(text)
    # the tokens that state the confidence are not part of the answer
    end = None if text == reply.text else len(text)
    logprob, n_tokens = _log_probability(reply.generation, reply.text, end)
    return place.response(
        text,
        answer=action,
        calls=calls,
        logprob=logprob,
        n_tokens=n_tokens,
        confidence=confidence if ending == "whole" else None,
        end=ending,
    )


def read_proposal(
    message: AIMessage, check: Callable[[list[JsonObject]], str]
) -> tuple[list[JsonObject], str]:
    """Returns the calls of a message, each with "name" and "args", and their canonical form.

    Args:
        message: Untrusted.
        check: Returns the canonical form of the calls; raises ValueError or TypeError where they are refused.

    Raises:
        InvalidReplyError: A call cannot be read, for example because its JSON names an argument twice, or is refused.
    """
    if message.invalid_tool_calls:
        call = message.invalid_tool_calls[0]
        name = str(call.get("name"))[:80]
        why = str(call.get("error") or "its arguments are not JSON")[:200]
        raise _invalid(f"the call of {name!r} cannot be read: {why}")

    calls = [{"name": call["name"], "args": call["args"]} for call in message.tool_calls]
    try:
        for arguments in _as_sent(message):
            parse_json(arguments, is_strict=True)
        return calls, check(calls)
    except (ValueError, TypeError, RecursionError) as error:
        raise _invalid(str(error)) from error


def _as_sent(message: AIMessage) -> list[str]:
    """Returns the JSON of arguments as OpenAI's API sends it; LangChain's parser hides repeated names."""
    texts = list[str]()
    calls = message.additional_kwargs.get("tool_calls")
    if not isinstance(calls, list):
        return texts
    for call in calls:
        function = call.get("function") if isinstance(call, Mapping) else None
        arguments = function.get("arguments") if isinstance(function, Mapping) else None
        if isinstance(arguments, str) and arguments.strip():
            texts.append(arguments)
    return texts


def _invalid(why: str) -> InvalidReplyError:
    hint = "Check the model's tool calls, for example the server's tool-call parser"
    return invalid_proposal(why, hint=hint)


def text_of(generation: Generation) -> str:
    """Returns the text of a generation, of a message that of all its text blocks."""
    if isinstance(generation, ChatGeneration):
        return str(generation.message.text)
    return generation.text


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
    generation: Generation, whole: str, end: int | None
) -> tuple[float | None, int | None]:
    """Returns the sum of the tokens' log-probabilities and their number; None where one is missing or invalid.

    With an `end`, the tokens are those of `whole[:end]` alone: up to the one in which it ends. None where they are not
    known, since the tokens' texts, which may be in parts of characters, are not that text.
    """
    tokens = _tokens_of(generation)
    if end is not None:
        texts = [token.get("token") for token in tokens]
        tokens = tokens[: _count_tokens(texts, whole, end)]
    if not tokens:
        return None, None
    values: list[Any] = [token.get("logprob") for token in tokens]
    if not are_finite(values) or max(values) > _ROUNDING:
        return None, None
    return min(math.fsum(values), 0.0), len(values)


def _count_tokens(texts: Sequence[Any], whole: str, end: int) -> int:
    """Returns how many tokens cover `whole[:end]`; 0 where that is not known."""
    if end == 0 or not all(isinstance(text, str) for text in texts):
        return 0
    joined = "".join(texts)
    # some clients strip the text, so that it begins behind the first tokens' spaces
    n_spaces = len(joined) - len(joined.lstrip())
    n_kept = len(whole) - len(whole.lstrip())
    start = n_spaces - n_kept
    stop = start + end
    if start < 0 or joined[start:stop] != whole[:end]:
        return 0
    ends = list(accumulate(len(text) for text in texts))
    return bisect_left(ends, stop) + 1


def _tokens_of(generation: Generation) -> Sequence[Fields]:
    """Returns what is known of the tokens, in the shape that `ChatOpenAI` gives it; nothing where it is not there."""
    logprobs = (generation.generation_info or {}).get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    return content or ()
