"""Owns the requests by which a chat model's choice is learned, as a generator without I/O: sync and async drive one."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from langchain_core.language_models import BaseChatModel
from langchain_core.outputs import Generation, LLMResult

from coe_agents.agents.choice_reading import FirstToken, read_choice, read_first_token
from coe_agents.agents.replies import text_of, usage_of
from coe_agents.errors import AgentError, NoChoiceError
from coe_agents.types import Usage

ChoiceMethod = Literal["exact", "top_logprobs", "constrained", "sampled"]
CHOICE_METHODS: tuple[ChoiceMethod, ...] = get_args(ChoiceMethod)
"""All methods, in the order in which they are tried."""

_N_TOP = 20
_REFUSALS = (400, 403, 405, 415, 422, 501)
"""HTTP statuses by which servers refuse an option; all else is an error of its own."""


@dataclass(frozen=True)
class ChoiceProbabilities:
    """How likely each choice is, given that the reply is one of them.

    Attributes:
        probabilities: One for each choice, in the order asked; they sum to 1.
        method: Where they come from; see `choice_probability`.
        mass: The share of all the model's replies that are one of the choices, in [0, 1]; a small one says that the
            model would rather say something else. None for "constrained", which allows nothing else.
        unseen: The choices that no listed token began; they have the most that they can have.
        n_samples: The replies that were counted, for "sampled"; else 0.
        input_tokens: What the request that settled it cost; 0 for "exact" and "sampled".
        output_tokens: See `input_tokens`.
    """

    probabilities: dict[str, float]
    method: ChoiceMethod
    mass: float | None
    unseen: tuple[str, ...] = ()
    n_samples: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True)
class Request:
    """One call of the model: the conversation so many times, with these options."""

    options: dict[str, Any]
    n_prompts: int = 1


_Generations = list[Generation]


def steps(
    model: BaseChatModel, choices: Sequence[str], n_samples: int, methods: Sequence[ChoiceMethod]
) -> Generator[Request, LLMResult, ChoiceProbabilities]:
    """Yields the requests, is sent their results or thrown their errors, and returns what they say; does no I/O."""
    fields = type(model).model_fields
    lists_tokens = "top_logprobs" in fields
    if lists_tokens and "top_logprobs" in methods:
        found, usage = yield from _first_token(model, choices, {"max_tokens": 1})
        if found and found.is_settled(choices):
            return _from_first_token(found, choices, "top_logprobs", usage)
        lists_tokens = found is not None
    if lists_tokens and "constrained" in methods and "extra_body" in fields:
        own = getattr(model, "extra_body", None) or {}
        held = {"extra_body": {**own, "structured_outputs": {"choice": list(choices)}}}
        found, usage = yield from _first_token(model, choices, {"max_tokens": 1, **held})
        if found and found.is_held(choices):
            return _from_first_token(found, choices, "constrained", usage)
    if "sampled" in methods:
        return (yield from _sampled(model, choices, n_samples))
    raise NoChoiceError(
        f"{type(model).__name__} gave no probabilities of {listed(choices)} by {listed(methods)}",
        hint='Allow the method "sampled", or use a server that gives log-probabilities',
    )


def _first_token(
    model: BaseChatModel, choices: Sequence[str], options: Mapping[str, Any]
) -> Generator[Request, LLMResult, tuple[FirstToken | None, Usage]]:
    try:
        result = yield Request({**_plain(model), **options, "logprobs": True, "top_logprobs": _N_TOP})
    except Exception as error:
        if not _is_refusal(error):
            raise
        return None, Usage(input_tokens=0, output_tokens=0)
    generations = _flat(result)
    if not generations:
        return None, Usage(input_tokens=0, output_tokens=0)
    return read_first_token(generations[0], choices), usage_of(result)


def _sampled(
    model: BaseChatModel, choices: Sequence[str], n_samples: int
) -> Generator[Request, LLMResult, ChoiceProbabilities]:
    """Counts replies; asks for all in one request where the model has a field `n`, and again for what is missing."""
    wanted = 1 if getattr(model, "temperature", None) == 0 else n_samples
    seed = getattr(model, "seed", None)
    many = "n" in type(model).model_fields and wanted > 1
    replies: _Generations = []
    while (missing := wanted - len(replies)) > 0:
        # replies that share a seed would be copies of one another
        options = _plain(model) if seed is None else {**_plain(model), "seed": seed + len(replies)}
        alone = Request(options, n_prompts=missing if seed is None else 1)
        try:
            result = yield Request({**options, "n": missing}) if many else alone
        except Exception as error:
            if not (many and _is_refusal(error)):
                raise
            many = False
            continue
        if not (came := _flat(result)):
            raise AgentError(f"{type(model).__name__} gave no reply", hint="Ask it directly to see why", retryable=True)
        replies += came[:missing]
    read = [read_choice(text_of(reply), choices) for reply in replies]
    n_clear = sum(choice is not None for choice in read)
    if not n_clear:
        raise NoChoiceError(
            f"none of {wanted} replies of {type(model).__name__} was one of {listed(choices)}",
            hint="Ask for one of the choices and nothing else, and leave room for it in `max_tokens`",
        )
    shares = {choice: read.count(choice) / n_clear for choice in choices}
    return ChoiceProbabilities(shares, "sampled", mass=n_clear / wanted, n_samples=wanted)


def _from_first_token(
    found: FirstToken, choices: Sequence[str], method: ChoiceMethod, usage: Usage
) -> ChoiceProbabilities:
    return ChoiceProbabilities(
        found.probabilities(choices),
        method,
        mass=None if method == "constrained" else found.mass,
        unseen=tuple(choice for choice in choices if choice not in found.seen),
        input_tokens=usage["input_tokens"],
        output_tokens=usage["output_tokens"],
    )


def _is_refusal(error: Exception) -> bool:
    """Tells whether a call may have failed for an option that the model or its server does not take."""
    answered = getattr(error, "status_code", None) or getattr(getattr(error, "response", None), "status_code", None)
    return answered in _REFUSALS or isinstance(error, TypeError | ValueError | NotImplementedError)


def _plain(model: BaseChatModel) -> dict[str, Any]:
    return {"stream": False} if "streaming" in type(model).model_fields else {}


def _flat(result: LLMResult) -> _Generations:
    return [generation for prompt in result.generations for generation in prompt]


def listed(names: Sequence[str]) -> str:
    """Returns names for an error's text."""
    return ", ".join(f'"{name}"' for name in names)
