"""Owns the step from a model's generations to our responses: text, log-probability, usage, and anomalies."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.outputs import ChatGeneration, Generation, LLMResult

from coe_agents.agents._requests.capabilities import Drawn, Ladder
from coe_agents.clustering import answer_kind
from coe_agents.types import AgentReply, Response, Rung, Sampling, Usage, create_response

FEWEST = 3
"""How many equal responses are a reason to look closer."""
_REFUSED = "I can't answer this."
"""The answer of a refusal whose own words would not be recognised as one."""
_ROUNDING = 1e-3
"""How far above 0 a log-probability may be by rounding."""


def to_reply(
    drawn: Drawn,
    ladder: Ladder,
    *,
    agent: str,
    round: int,
    first_index: int,
    n_samples: int,
    temperature: float,
    max_chars: int,
    marks_truncated: bool = False,
) -> AgentReply:
    """Returns an agent's reply: the responses, their cost, and how they were sampled.

    With `marks_truncated`, a reply that the model did not finish is marked at its end, so that it does not pass
    for a whole one.
    """
    generations = [generation for one in drawn.results for generation in one.result.generations[0]][:n_samples]
    refusals = [text for one in drawn.results for text in _refusals(one.result.generations[0])][:n_samples]
    responses = [
        _response(generation, agent, round, index, max_chars, refused=refused, marks_truncated=marks_truncated)
        for index, (generation, refused) in enumerate(zip(generations, refusals, strict=True), start=first_index)
    ]
    answered = [*drawn.results, *drawn.unused]
    usages = [usage_of(one.result) for one in answered]
    known = [response["logprob"] is not None for response in responses]
    identical = temperature > 0 and len(responses) >= FEWEST and _are_identical(responses)
    sampling = Sampling(
        round=round,
        rung=_rung(several=ladder.takes_several, logprobs=any(known)),
        n_requested=n_samples,
        n_received=len(responses),
        n_requests=len(answered),
        n_empty=sum(not response["text"].strip() for response in responses),
        n_truncated=sum(_is_truncated(generation) for generation in generations),
        n_cut=sum(len(text_of(generation)) > max_chars for generation in generations),
        logprobs_missing=known.count(False),
        identical=identical,
        identical_chance=_chance(responses) if identical and temperature >= 1 else None,
        refused=list(ladder.refused),
        ignores_temperature=None,
        probe=None,
        counted="each",
        error=None if drawn.failure is None else f"{type(drawn.failure).__name__}: {drawn.failure}",
    )
    cost = Usage(
        input_tokens=sum(usage["input_tokens"] for usage in usages),
        output_tokens=sum(usage["output_tokens"] for usage in usages),
    )
    return AgentReply(responses=responses, usage=cost, sampling=sampling)


def _response(
    generation: Generation, agent: str, round: int, index: int, max_chars: int, *, refused: str, marks_truncated: bool
) -> Response:
    if refused:
        # in other words than ours it would not be recognised, and must not pass for an answer, or for a choice
        text, answer = (refused, None) if answer_kind(refused) == "refusal" else (f"{_REFUSED} {refused}", _REFUSED)
        return create_response(agent, _shorten(text, max_chars), round=round, index=index, answer=answer)
    text = _shorten(text_of(generation), max_chars)
    if marks_truncated and _is_truncated(generation):
        text += "… [cut off by the model's limit]"
    logprob, n_tokens = _log_probability(generation)
    return create_response(agent, text, round=round, index=index, logprob=logprob, n_tokens=n_tokens)


def _refusals(generations: Sequence[Generation]) -> list[str]:
    """Returns for each generation without text how the provider says that the model refuses; "" for any other.

    Of several choices, LangChain keeps the refusal of the first one only: it is that of those without text, too.
    """
    first = _refusal(generations[0]) if generations else ""
    return ["" if text_of(one).strip() else _refusal(one) or first for one in generations]


def _refusal(generation: Generation) -> str:
    if not isinstance(generation, ChatGeneration):
        return ""
    said = generation.message.additional_kwargs.get("refusal")
    if not said and isinstance(content := generation.message.content, list):  # of OpenAI's Responses API
        said = next((part.get("refusal") for part in content if isinstance(part, Mapping) and part.get("refusal")), "")
    return said.strip() if isinstance(said, str) else ""


def _rung(*, several: bool, logprobs: bool) -> Rung:
    if several:
        return "n-logprobs" if logprobs else "n"
    return "each-logprobs" if logprobs else "each"


def text_of(generation: Generation) -> str:
    """Returns what the model said."""
    return str(generation.message.text) if isinstance(generation, ChatGeneration) else generation.text


def whole_text(reply: AgentReply) -> str | None:
    """Returns the one response of a reply; None where it was cut off."""
    sampling = reply.get("sampling")
    is_cut = sampling is not None and (sampling["n_truncated"] or sampling["n_cut"])
    return None if is_cut else reply["responses"][0]["text"]


def _shorten(text: str, max_chars: int) -> str:
    """Returns a long text cut, with a hash of the whole, so that texts that differ in the rest stay different."""
    if len(text) <= max_chars:
        return text
    digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:12]
    return f"{text[:max_chars]}… [cut from {len(text)} characters, {digest}]"


def _is_truncated(generation: Generation) -> bool:
    said = dict(generation.generation_info or {})
    if isinstance(generation, ChatGeneration):
        said = {**generation.message.response_metadata, **said}
    return (said.get("finish_reason") or said.get("stop_reason")) in ("length", "max_tokens")


def _log_probability(generation: Generation) -> tuple[float | None, int | None]:
    """Returns the sum of the tokens' log-probabilities and their number; None where one is missing or invalid."""
    given = (generation.generation_info or {}).get("logprobs")
    content = given.get("content") if isinstance(given, Mapping) else None
    values = [token.get("logprob") for token in content or ()]
    if not values or not all(_is_log_probability(value) for value in values):
        return None, None
    return min(math.fsum(values), 0.0), len(values)


def _is_log_probability(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value <= _ROUNDING


def _are_identical(responses: Sequence[Response]) -> bool:
    return len({(response["text"], response["logprob"]) for response in responses}) == 1


def _chance(responses: Sequence[Response]) -> float | None:
    logprob = responses[0]["logprob"]
    return None if logprob is None else math.exp(logprob * (len(responses) - 1))


def usage_of(result: LLMResult) -> Usage:
    """Returns the request's tokens, once: each message of a request repeats the request's total."""
    totals = (result.llm_output or {}).get("token_usage") or {}
    if "prompt_tokens" in totals:
        return Usage(input_tokens=totals["prompt_tokens"] or 0, output_tokens=totals.get("completion_tokens") or 0)
    first = result.generations[0][0]
    usage = getattr(getattr(first, "message", None), "usage_metadata", None) or {}
    return Usage(input_tokens=usage.get("input_tokens", 0), output_tokens=usage.get("output_tokens", 0))
