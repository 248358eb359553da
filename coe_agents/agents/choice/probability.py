"""Owns how likely a chat model is to reply with each of a few short choices, and the reading of a choice."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, permutations
from typing import Any, Literal, get_args

from langchain_core.messages import BaseMessage, MessageLikeRepresentation, convert_to_messages
from langchain_core.outputs import Generation, LLMResult

from coe_agents._removed import replacement_of
from coe_agents._steps import Call, Steps
from coe_agents.agents.error_mapping import status_of
from coe_agents.agents.requests.endings import IN_WORDS, judge_end
from coe_agents.agents.requests.parse import text_of
from coe_agents.agents.requests.send import Deadline, Server, call_model, tracing_options
from coe_agents.checks import several
from coe_agents.clustering.answers import parse_choice, strip_reasoning
from coe_agents.errors import AgentError, NoChoiceError
from coe_agents.text import quotation
from coe_agents.types import (
    AgentReply,
    AgentRequest,
    Fields,
    JsonObject,
    Response,
    Sampling,
    Usage,
    add_usages,
    create_response,
    usage_of,
)

_LEAD = re.compile(
    r"\A[\W_]*(?:(?:the|my|final|correct)\s+)*(?:answer|label|reply|response)\s*(?:is\b\s*:?|:)",
    re.I,
)
_ENDS = r"(?=\Z|\s*\n|\s*[^\w\s'’?:=-])"


def read_choice(text: str, choices: Sequence[str]) -> str | None:
    """Returns the choice that a reply states, or None where it states none or is not clear.

    The reply must open with the choice, or with "The answer is" and the choice; a word right behind it, or another of
    the choices anywhere, makes it unclear. Case, quotation marks, emphasis and `<think>` blocks do not matter.

    Example:
        >>> choices = ("True", "False")
        >>> [read_choice(text, choices) for text in ("**true**.", "Answer: False, since ...", "True or False?")]
        ['True', 'False', None]
        >>> read_choice("That is not true.", choices), read_choice("True believers say so", choices)
        (None, None)
    """
    reply = strip_reasoning(text)
    named = list[str]()
    for choice in choices:
        if re.search(rf"(?<!\w){re.escape(choice)}(?!\w)", reply, re.I):
            named.append(choice)
    if len(named) != 1:
        return None
    [choice] = named
    opens = re.match(rf"[\W_]*{re.escape(choice)}{_ENDS}", _LEAD.sub("", reply), re.I)
    return choice if opens else None


ChoiceMethod = Literal["exact", "sampled"]
CHOICE_METHODS: tuple[ChoiceMethod, ...] = get_args(ChoiceMethod)
"""All methods, in the order in which they are tried."""
N_REPLIES = 10
"""How many replies are read for "sampled", unless another number is given."""
OTHER_REPLY = "(another reply)"
"""The text of the response that stands for all replies that are not one of the choices."""
MIN_MASS = 0.5
"""If the choices hold less of the model's probability, their ratio is unreliable, and its replies are read instead."""

_REFUSALS = (400, 403, 405, 415, 422, 501)
"""HTTP statuses by which servers refuse an option; any other error is raised."""


@dataclass(frozen=True)
class ChoiceProbabilities:
    """How likely each choice is, given that the reply is one of them.

    Attributes:
        probabilities: One for each choice, in the order asked; they sum to 1.
        method: How they were obtained; see `ModelAgent.choice`.
        mass: The share of all the model's replies that are one of the choices, in [0, 1]; where it is small, the
            model mostly replies something else.
        input_tokens: The tokens of the requests that gave the result; 0 for "exact", None if not known.
        output_tokens: See `input_tokens`.
    """

    probabilities: dict[str, float]
    method: ChoiceMethod
    mass: float
    input_tokens: int | None = 0
    output_tokens: int | None = 0


def choice_steps(
    server: Server,
    messages: Sequence[MessageLikeRepresentation],
    choices: Sequence[str],
    *,
    n_samples: int = N_REPLIES,
    methods: Sequence[ChoiceMethod] = CHOICE_METHODS,
    config: Fields | None = None,
    seconds: float | None = None,
    strict: bool = False,
) -> Steps[ChoiceProbabilities]:
    """Returns how likely a model is to reply with each of a few short choices; see `ModelAgent.choice`.

    The model's temperature is left as it is. `config` is a `RunnableConfig`, passed through for callbacks, tags and
    metadata; `seconds` is what all requests together may take.
    """
    conversation = _check(messages, choices, methods)
    # `coe_agents.backends.ChatTransformers` has it
    score = getattr(server.model, "choice_log_probabilities", None)
    if "exact" in methods and score is not None:
        scores = yield Call(score, None, (conversation, choices), seconds=seconds)
        return _from_scores(scores, choices)
    name = type(server.model).__name__
    if "sampled" not in methods:
        raise NoChoiceError(
            f"{name} gave no probabilities of {_list_names(choices)} by {_list_names(methods)}",
            hint='Allow the method "sampled"',
        )

    replies, usage = yield from _sample(server, conversation, n_samples, config, Deadline(seconds))
    read = parse_choice if strict else read_choice
    stated = list[str]()
    for reply in replies:
        # of a reply that did not end whole, the rest could say the opposite
        if judge_end(reply) != "whole":
            continue
        choice = read(text_of(reply), choices)
        if choice is not None:
            stated.append(choice)
    if not stated:
        raise NoChoiceError(
            f"none of {len(replies)} replies of {name} was one of {_list_names(choices)}; "
            f"the first is {_quote(replies[0])}",
            hint="Ask for one of the choices and nothing else, and leave room for it in `max_tokens`",
        )
    shares = {choice: stated.count(choice) / len(stated) for choice in choices}
    mass = len(stated) / len(replies)
    return ChoiceProbabilities(shares, "sampled", mass, **usage)


def _quote(reply: Generation) -> str:
    """Returns what a reply says, short and made safe, and what it lacks where it is not whole."""
    quoted = quotation(text_of(reply))
    lacks = IN_WORDS.get(judge_end(reply))
    return f"{quoted} ({lacks})" if lacks else quoted


def _from_scores(scores: Sequence[float], choices: Sequence[str]) -> ChoiceProbabilities:
    values = [float(score) for score in scores]
    top = max(values, default=math.nan)
    has_nan = any(math.isnan(value) for value in values)
    if len(values) != len(choices) or has_nan or not math.isfinite(top):
        raise NoChoiceError(
            f"the log-probabilities of {_list_names(choices)} must be {len(choices)} numbers, one of them finite; "
            f"got {values}",
            hint="Check the model's weights and its number format",
        )
    # relative to the likeliest choice, since the probabilities themselves may be below all floating-point numbers
    shares = [math.exp(value - top) for value in values]
    total = math.fsum(shares)
    probabilities = {choice: share / total for choice, share in zip(choices, shares, strict=True)}
    mass = min(math.exp(top) * total, 1.0)
    return ChoiceProbabilities(probabilities, "exact", mass)


def _check(messages: Any, choices: Sequence[str], methods: Sequence[str]) -> list[BaseMessage]:
    for name, value in (("messages", messages), ("choices", choices), ("methods", methods)):
        several(value, f'"{name}"', of=name, advice="Put a single one into a list")
    folded = [choice.strip().casefold() for choice in choices]
    if len(folded) < 2 or not all(folded):
        raise ValueError(
            f'"choices" must hold at least two texts, none empty; got {list(choices)}. Name the others'
        )
    if ambiguous := find_ambiguous(choices):
        raise ValueError(
            f'none of "choices" may begin another, in any case; "{ambiguous[0]}" begins "{ambiguous[1]}". '
            "Reword one of them, or name them A, B, ..."
        )
    if not methods or not set(methods) <= set(CHOICE_METHODS):
        advice = "Omit it for all"
        for method in methods:
            advice = replacement_of("choice", method) or advice
        raise ValueError(
            f'"methods" must be among {_list_names(CHOICE_METHODS)}; got {list(methods)}. {advice}'
        )
    return convert_to_messages(messages)


def find_ambiguous(choices: Sequence[str]) -> tuple[str, str] | None:
    """Returns a choice and another one that it begins, ignoring case: the score of the one has that of the other."""
    for choice, other in permutations(choices, 2):
        if other.strip().casefold().startswith(choice.strip().casefold()):
            return choice, other
    return None


def _sample(
    server: Server,
    conversation: list[BaseMessage],
    n_samples: int,
    config: Fields | None,
    deadline: Deadline,
) -> Steps[tuple[list[Generation], Usage]]:
    """Asks for all replies in one request where the model has a field `n`, and again for what is missing."""
    fields = type(server.model).model_fields
    # streaming would merge the choices of a request, and log-probabilities, which a server may refuse, are not read
    unset = JsonObject()
    for name in ("streaming", "logprobs"):
        if name in fields:
            unset[name] = fields[name].default
    model = server.model.model_copy(update=unset)
    always = tracing_options(config)
    if "streaming" in fields:
        always["stream"] = False

    n_wanted = 1 if getattr(model, "temperature", None) == 0 else n_samples
    seed = getattr(model, "seed", None)
    takes_several = "n" in fields and n_wanted > 1
    replies = list[Generation]()
    usages = list[Usage]()
    while len(replies) < n_wanted:
        n_missing = n_wanted - len(replies)
        n_prompts = n_missing
        options = dict(always)
        if seed is not None:
            # replies that share a seed would be copies of one another
            options["seed"] = seed + len(replies)
            n_prompts = 1
        if takes_several:
            options["n"] = n_missing
            n_prompts = 1
        try:
            prompts = [conversation] * n_prompts
            seconds = deadline.seconds_left()
            result: LLMResult = yield call_model(server.places, model, prompts, options, seconds)
        except Exception as error:
            if not (takes_several and _is_refusal(error)):
                raise
            takes_several = False
            continue
        received = list(chain.from_iterable(result.generations))
        if not received:
            hint = "Call the model directly to see why"
            raise AgentError(f"{type(model).__name__} gave no reply", hint=hint, retryable=True)
        replies += received[:n_missing]
        usages.append(usage_of(result))
    return replies, add_usages(usages)


def _is_refusal(error: Exception) -> bool:
    """Returns whether a call may have failed for an option that the model or its server does not take."""
    if status_of(error) in _REFUSALS:
        return True
    return isinstance(error, TypeError | ValueError | NotImplementedError)


def _list_names(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def to_graded_reply(
    scored: ChoiceProbabilities, request: AgentRequest, *, agent: str
) -> AgentReply:
    """Returns the probabilities of choices as responses: one for each choice, of one token, and one for the rest."""
    shares = {choice: p * scored.mass for choice, p in scored.probabilities.items()}
    shares[OTHER_REPLY] = 1.0 - scored.mass
    responses = list[Response]()
    for text, share in shares.items():
        if share <= 0:
            continue
        response = create_response(
            agent,
            text,
            round=request["round"],
            index=len(responses),
            logprob=math.log(share),
            n_tokens=1,
        )
        responses.append(response)
    sampling = Sampling(
        round=request["round"],
        rung="choice",
        n_requested=1,
        n_received=1,
        n_requests=1,
        n_empty=0,
        n_truncated=0,
        n_cut=0,
        n_invalid_calls=0,
        logprobs_missing=0,
        ignores_temperature=None,
        probe=None,
        counted="each",
        refused=[],
        error=None,
    )
    usage = Usage(input_tokens=scored.input_tokens, output_tokens=scored.output_tokens)
    return AgentReply(responses=responses, usage=usage, sampling=sampling)
