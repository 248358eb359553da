"""Owns `choice_probability`: how likely a chat model is to reply with each of a few short choices."""

import asyncio
import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, MessageLikeRepresentation, convert_to_messages

from coe_agents.agents._requests.send import tracing_options
from coe_agents.agents.choice.steps import CHOICE_METHODS, ChoiceMethod, ChoiceProbabilities, list_names, steps
from coe_agents.errors import NoChoiceError


@runtime_checkable
class ScoresChoices(Protocol):
    """A model that gives the log-probability of any reply, as `coe_agents.backends.ChatTransformers` does."""

    def choice_log_probabilities(self, messages: Sequence[BaseMessage], choices: Sequence[str]) -> Sequence[float]:
        """Returns each choice's natural log-probability as the beginning of the reply."""
        ...


def choice_probability(
    model: BaseChatModel,
    messages: Sequence[MessageLikeRepresentation],
    choices: Sequence[str],
    *,
    n_samples: int = 10,
    methods: Sequence[ChoiceMethod] = CHOICE_METHODS,
    config: Mapping[str, Any] | None = None,
) -> ChoiceProbabilities:
    """Returns how likely a model is to reply with each of a few short choices, P(choice | the reply is a choice).

    The first of these methods that the model offers and that is precise enough:

    - "exact": the choice's tokens are scored at the assistant's place, whatever their number, as they are spelled:
      log P(choice) = sum_t log p(token_t | messages, tokens before t). For models with `choice_log_probabilities`.
    - "top_logprobs": the likeliest 20 first tokens, for models with the fields `logprobs` and `top_logprobs`, such as
      `ChatOpenAI`. Each counts for the one choice that it begins, in its own case or another. A choice that none begins
      gets the most that it can have, the least listed probability or what is left of 1; where that could be more than
      1 % of what the seen ones have, the next method is used.
    - "constrained": the same, with the reply held to the choices by the server (vLLM's `structured_outputs`), for
      models with a field `extra_body`. A server that does not know the option is recognised.
    - "sampled": the frequency among `n_samples` replies that state one choice and no other; one reply where the
      model's temperature is 0, since all would be the same.

    What a server refuses leads to the next method; other errors of the model pass through.

    Args:
        model: Any chat model. Its temperature is left as it is; servers give log-probabilities before temperature.
        messages: The conversation; the last message asks for one of the choices.
        choices: At least two. None may begin another, in any case, and none should begin like another usual reply.
        n_samples: How many replies "sampled" asks for.
        methods: Which methods may be used.
        config: LangChain's `RunnableConfig`, passed through for callbacks, tags and metadata.

    Raises:
        TypeError: If an argument is of another kind.
        ValueError: If the choices cannot be distinguished, or an option cannot work.
        NoChoiceError: If no reply was one of the choices, or no allowed method gave probabilities.

    Example:
        >>> from langchain_core.language_models.fake_chat_models import FakeListChatModel
        >>> model = FakeListChatModel(responses=["True", "True.", "False", "It depends."])
        >>> found = choice_probability(model, [("user", "Is it so?")], ("True", "False"), n_samples=4)
        >>> found.method, round(found.probabilities["True"], 3), found.mass
        ('sampled', 0.667, 0.75)
    """
    conversation = _check(model, messages, choices, n_samples, methods)
    if "exact" in methods and isinstance(model, ScoresChoices):
        return _from_scores(model.choice_log_probabilities(conversation, choices), choices)
    quiet, observed = _without_streaming(model), tracing_options(config)
    ladder = steps(quiet, choices, n_samples, methods)
    try:
        request = next(ladder)
        while True:
            try:
                result = quiet.generate([conversation] * request.n_prompts, **observed, **request.options)
            except Exception as error:
                request = ladder.throw(error)
            else:
                request = ladder.send(result)
    except StopIteration as done:
        return _value_of(done)


async def achoice_probability(
    model: BaseChatModel,
    messages: Sequence[MessageLikeRepresentation],
    choices: Sequence[str],
    *,
    n_samples: int = 10,
    methods: Sequence[ChoiceMethod] = CHOICE_METHODS,
    config: Mapping[str, Any] | None = None,
) -> ChoiceProbabilities:
    """Returns how likely a model is to reply with each of a few short choices; see `choice_probability`."""
    conversation = _check(model, messages, choices, n_samples, methods)
    if "exact" in methods and isinstance(model, ScoresChoices):
        return _from_scores(await asyncio.to_thread(model.choice_log_probabilities, conversation, choices), choices)
    quiet, observed = _without_streaming(model), tracing_options(config)
    ladder = steps(quiet, choices, n_samples, methods)
    try:
        request = next(ladder)
        while True:
            try:
                result = await quiet.agenerate([conversation] * request.n_prompts, **observed, **request.options)
            except Exception as error:
                request = ladder.throw(error)
            else:
                request = ladder.send(result)
    except StopIteration as done:
        return _value_of(done)


def _from_scores(scores: Sequence[float], choices: Sequence[str]) -> ChoiceProbabilities:
    values = [float(score) for score in scores]
    top = max(values, default=math.nan)
    if len(values) != len(choices) or any(math.isnan(value) for value in values) or not math.isfinite(top):
        raise NoChoiceError(
            f"the log-probabilities of {list_names(choices)} must be {len(choices)} numbers, one of them finite; "
            f"got {values}",
            hint="Check the model's weights and its number format",
        )
    shares = [math.exp(value - top) for value in values]
    total = math.fsum(shares)
    probabilities = {choice: share / total for choice, share in zip(choices, shares, strict=True)}
    return ChoiceProbabilities(probabilities, "exact", mass=min(math.exp(top) * total, 1.0))


def _check(
    model: Any, messages: Any, choices: Sequence[str], n_samples: int, methods: Sequence[str]
) -> list[BaseMessage]:
    """Returns the messages as LangChain's, or raises what is wrong with the arguments."""
    if not isinstance(model, BaseChatModel):
        raise TypeError(f'"model" must be a LangChain chat model; got {type(model).__name__}. Pass the model itself')
    for name, value in (("messages", messages), ("choices", choices), ("methods", methods)):
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise TypeError(f'"{name}" must be a sequence; got {type(value).__name__}. Put a single one into a list')
    folded = [choice.strip().casefold() for choice in choices]
    if len(folded) < 2 or not all(folded):
        raise ValueError(f'"choices" must hold at least two texts, none empty; got {list(choices)}. Name the others')
    for i, one in enumerate(folded):
        for j, other in enumerate(folded):
            if i != j and other.startswith(one):
                raise ValueError(
                    f'none of "choices" may begin another, in any case; "{choices[i]}" begins "{choices[j]}". '
                    "Reword one of them, or name them A, B, ..."
                )
    if not n_samples >= 1:
        raise ValueError(f'"n_samples" must be at least 1; got {n_samples}. 10 is the default')
    if not methods or not set(methods) <= set(CHOICE_METHODS):
        raise ValueError(f'"methods" must be among {list_names(CHOICE_METHODS)}; got {list(methods)}. Omit it for all')
    return convert_to_messages(messages)


def _without_streaming(model: BaseChatModel) -> BaseChatModel:
    """Returns the model with streaming off: streamed choices of one request would be merged into one text."""
    return model.model_copy(update={"streaming": False}) if getattr(model, "streaming", False) else model


def _value_of(done: StopIteration) -> ChoiceProbabilities:
    found: ChoiceProbabilities = done.value
    return found
