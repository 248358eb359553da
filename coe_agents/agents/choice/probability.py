"""Owns how likely a chat model is to reply with each of a few short choices, and the reading of a choice."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any, Literal, get_args

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, MessageLikeRepresentation, convert_to_messages
from langchain_core.outputs import Generation, LLMResult

from coe_agents._steps import Call, Steps
from coe_agents.agents._requests.parse import text_of, tokens_of
from coe_agents.agents._requests.send import Deadline, Places, call_model, places_of, tracing_options
from coe_agents.agents.error_mapping import status_of
from coe_agents.checks import several
from coe_agents.clustering.answers import strip_reasoning
from coe_agents.errors import AgentError, NoChoiceError
from coe_agents.types import AgentReply, AgentRequest, Sampling, Usage, add_usages, create_response, usage_of

_MASKED = 1e-30
"""A masked token has a log-probability of -100 or less, as servers write minus infinity."""

MAX_DOUBT = 0.01
"""How much a list of first tokens may leave open, as a share of what it gives to the choices."""

_PIECE_SPACES = " \t\r\n\N{LOWER ONE EIGHTH BLOCK}\N{LATIN CAPITAL LETTER G WITH DOT ABOVE}"
"""White space, and the two characters that raw pieces of SentencePiece and of byte-level BPE write for a space."""

_LEAD = re.compile(r"\A[\W_]*(?:(?:the|my|final|correct)\s+)*(?:answer|label|reply|response)\s*(?:is\b\s*:?|:)", re.I)
_ENDS = r"(?=\Z|\s*\n|\s*[^\w\s'’?:=-])"


@dataclass(frozen=True)
class FirstToken:
    """What a list of the likeliest first tokens says about the choices.

    Attributes:
        seen: The probability of each choice that a listed token begins; some choices may be missing.
        ambiguous: The probability of tokens that begin more than one choice.
        unlisted: The most that a token outside the list can have.
        others: The probability of the listed tokens that begin no choice.
    """

    seen: Mapping[str, float]
    ambiguous: float
    unlisted: float
    others: float = 0.0

    @property
    def mass(self) -> float:
        """The probability of all seen choices together, in [0, 1]."""
        return min(math.fsum(self.seen.values()), 1.0)

    def is_settled(self, choices: Sequence[str]) -> bool:
        """Returns whether what the list leaves open is at most `MAX_DOUBT` of what it gives to the choices."""
        doubt = self.ambiguous + self.unlisted * (len(choices) - len(self.seen))
        return self.mass > 0 and doubt <= MAX_DOUBT * self.mass

    def is_held(self, choices: Sequence[str]) -> bool:
        """Returns whether the reply was held to the choices: all are listed, and no other token has any probability.

        A mask leaves nothing to other tokens; a server that ignores it leaves them little, where the model is sure.
        """
        return self.is_settled(choices) and set(self.seen) == set(choices) and self.others <= _MASKED

    def probabilities(self, choices: Sequence[str]) -> dict[str, float]:
        """Returns probabilities that sum to 1; a choice that was not seen gets the most that it can have."""
        given = {choice: self.seen.get(choice, self.unlisted) for choice in choices}
        total = math.fsum(given.values())
        return {choice: value / total for choice, value in given.items()}


def read_first_token(generation: Generation, choices: Sequence[str]) -> FirstToken | None:
    """Reads the list of the likeliest first tokens in the shape that `ChatOpenAI` gives it.

    A token counts for the one choice that it begins or that it begins with, after white space is taken off its ends;
    case counts first, and where no choice fits so, it does not.

    Returns:
        None where there is no list, or one of its log-probabilities is missing or NaN.

    Example:
        >>> listed = [{"token": " True", "logprob": -0.1}, {"token": "false", "logprob": -2.5}]
        >>> info = {"logprobs": {"content": [{**listed[0], "top_logprobs": listed}]}}
        >>> found = read_first_token(Generation(text=" True", generation_info=info), ("True", "False"))
        >>> {choice: round(p, 3) for choice, p in found.seen.items()}
        {'True': 0.905, 'False': 0.082}
    """
    content = tokens_of(generation)
    if not content or not content[0].get("top_logprobs"):
        return None
    top = [_read_entry(entry) for entry in content[0]["top_logprobs"]]
    drawn = _read_entry(content[0])
    # servers add the drawn token to the list if it is not among the likeliest
    listed = top if drawn[0] in dict(top) else [*top, drawn]
    if any(math.isnan(probability) for _, probability in listed):
        return None
    seen: dict[str, float] = {}
    ambiguous = total = others = 0.0
    for token, probability in listed:
        total += probability
        begun = _find_begun(token, choices)
        if len(begun) == 1:
            seen[begun[0]] = seen.get(begun[0], 0.0) + probability
        elif begun:
            ambiguous += probability
        else:
            others += probability
    least = min(probability for _, probability in top)
    return FirstToken(seen, ambiguous, min(least, max(0.0, 1.0 - total)), others)


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
    named = [choice for choice in choices if re.search(rf"(?<!\w){re.escape(choice)}(?!\w)", reply, re.I)]
    if len(named) != 1:
        return None
    opened = re.match(rf"[\W_]*{re.escape(named[0])}{_ENDS}", _LEAD.sub("", reply), re.I)
    return named[0] if opened else None


def _read_entry(entry: Mapping[str, Any]) -> tuple[str, float]:
    """Returns a token and its probability; NaN where the log-probability is missing or not a number."""
    logprob = entry.get("logprob")
    return str(entry.get("token") or ""), math.exp(min(logprob, 0.0)) if isinstance(logprob, int | float) else math.nan


def _find_begun(token: str, choices: Sequence[str]) -> list[str]:
    piece = token.strip(_PIECE_SPACES)
    if not piece:
        return []
    exactly = [choice for choice in choices if _begins(piece, choice)]
    return exactly or [choice for choice in choices if _begins(piece.casefold(), choice.casefold())]


def _begins(piece: str, choice: str) -> bool:
    return choice.startswith(piece) or (piece.startswith(choice) and not piece[len(choice)].isalnum())


ChoiceMethod = Literal["exact", "top_logprobs", "constrained", "sampled"]
CHOICE_METHODS: tuple[ChoiceMethod, ...] = get_args(ChoiceMethod)
"""All methods, in the order in which they are tried."""

OTHER_REPLY = "(another reply)"
"""The text of the response that stands for all replies that are not one of the choices."""
MIN_MASS = 0.5
"""If the choices hold less of the model's probability, their ratio is unreliable, and its replies are read instead."""
METHODS: tuple[ChoiceMethod, ...] = ("exact", "constrained")
"""Not the likeliest first tokens of a free reply, which may continue: "Approve would be unsafe"."""

_N_TOP = 20
_REFUSALS = (400, 403, 405, 415, 422, 501)
"""HTTP statuses by which servers refuse an option; any other error is raised."""


@dataclass(frozen=True)
class ChoiceProbabilities:
    """How likely each choice is, given that the reply is one of them.

    Attributes:
        probabilities: One for each choice, in the order asked; they sum to 1.
        method: How they were obtained; see `ModelAgent.choice`.
        mass: The share of all the model's replies that are one of the choices, in [0, 1]; where it is small, the
            model mostly replies something else. None for "constrained", which allows nothing else.
        input_tokens: The tokens of the requests that gave the result; 0 for "exact", None if not known.
        output_tokens: See `input_tokens`.
    """

    probabilities: dict[str, float]
    method: ChoiceMethod
    mass: float | None
    input_tokens: int | None = 0
    output_tokens: int | None = 0


def choice_steps(
    model: BaseChatModel,
    messages: Sequence[MessageLikeRepresentation],
    choices: Sequence[str],
    *,
    n_samples: int = 10,
    methods: Sequence[ChoiceMethod] = CHOICE_METHODS,
    config: Mapping[str, Any] | None = None,
    seconds: float | None = None,
    places: Places | None = None,
) -> Steps[ChoiceProbabilities]:
    """Returns how likely a model is to reply with each of a few short choices; see `ModelAgent.choice`.

    The model's temperature is left as it is; servers give log-probabilities before temperature. `config` is a
    `RunnableConfig`, passed through for callbacks, tags and metadata; `seconds` is what all requests together may take;
    `places` are those of the model's server.
    """
    conversation = _check(messages, choices, methods)
    score = getattr(model, "choice_log_probabilities", None)  # `coe_agents.backends.ChatTransformers` has it
    if "exact" in methods and score is not None:
        return _from_scores((yield Call(score, None, (conversation, choices), seconds=seconds)), choices)
    fields, limit = type(model).model_fields, Deadline(seconds)
    # streaming would merge the choices of a request, and a server may refuse log-probabilities, and is sampled then
    unset: dict[str, Any] = {name: fields[name].default for name in ("streaming", "logprobs") if name in fields}
    model = model.model_copy(update=unset)
    always = tracing_options(config) | ({"stream": False} if "streaming" in fields else {})

    def request(options: Mapping[str, Any], n_prompts: int = 1) -> Call:
        given = {**always, **options}
        prompts = [conversation] * n_prompts
        return call_model(places or places_of(model, ""), model, prompts, given, limit.seconds_left())

    lists_tokens = "top_logprobs" in fields
    if lists_tokens and "top_logprobs" in methods:
        found = yield from _first_token(request, choices)
        if found and found[0].is_settled(choices):
            return _from_first_token(*found, choices, "top_logprobs")
        lists_tokens = found is not None
    if lists_tokens and "constrained" in methods and "extra_body" in fields:
        own = getattr(model, "extra_body", None) or {}
        held = {"extra_body": {**own, "structured_outputs": {"choice": list(choices)}}}
        found = yield from _first_token(request, choices, held)
        if found and found[0].is_held(choices):
            return _from_first_token(*found, choices, "constrained")
    if "sampled" in methods:
        return (yield from _sample(model, request, choices, n_samples))
    raise NoChoiceError(
        f"{type(model).__name__} gave no probabilities of {_list_names(choices)} by {_list_names(methods)}",
        hint='Allow the method "sampled", or use a server that gives log-probabilities',
    )


def _from_scores(scores: Sequence[float], choices: Sequence[str]) -> ChoiceProbabilities:
    values = [float(score) for score in scores]
    top = max(values, default=math.nan)
    if len(values) != len(choices) or any(map(math.isnan, values)) or not math.isfinite(top):
        raise NoChoiceError(
            f"the log-probabilities of {_list_names(choices)} must be {len(choices)} numbers, one of them finite; "
            f"got {values}",
            hint="Check the model's weights and its number format",
        )
    shares = [math.exp(value - top) for value in values]
    total = math.fsum(shares)
    probabilities = {choice: share / total for choice, share in zip(choices, shares, strict=True)}
    return ChoiceProbabilities(probabilities, "exact", mass=min(math.exp(top) * total, 1.0))


def _check(messages: Any, choices: Sequence[str], methods: Sequence[str]) -> list[BaseMessage]:
    for name, value in (("messages", messages), ("choices", choices), ("methods", methods)):
        several(value, f'"{name}"', of=name, advice="Put a single one into a list")
    folded = [choice.strip().casefold() for choice in choices]
    if len(folded) < 2 or not all(folded):
        raise ValueError(f'"choices" must hold at least two texts, none empty; got {list(choices)}. Name the others')
    if ambiguous := find_ambiguous(choices):
        raise ValueError(
            f'none of "choices" may begin another, in any case; "{ambiguous[0]}" begins "{ambiguous[1]}". '
            "Reword one of them, or name them A, B, ..."
        )
    if not methods or not set(methods) <= set(CHOICE_METHODS):
        raise ValueError(f'"methods" must be among {_list_names(CHOICE_METHODS)}; got {list(methods)}. Omit it for all')
    return convert_to_messages(messages)


def find_ambiguous(choices: Sequence[str]) -> tuple[str, str] | None:
    """Returns a choice and another one that it begins, ignoring case; a first token does not distinguish these."""
    pairs = permutations(choices, 2)
    return next(((a, b) for a, b in pairs if b.strip().casefold().startswith(a.strip().casefold())), None)


def _first_token(
    request: Callable[..., Call], choices: Sequence[str], held: Mapping[str, Any] | None = None
) -> Steps[tuple[FirstToken, Usage] | None]:
    try:
        result = yield request({"max_tokens": 1, **(held or {}), "logprobs": True, "top_logprobs": _N_TOP})
    except Exception as error:
        if not _is_refusal(error):
            raise
        return None
    generations = _flat(result)
    found = read_first_token(generations[0], choices) if generations else None
    return None if found is None else (found, usage_of(result))


def _sample(
    model: BaseChatModel, request: Callable[..., Call], choices: Sequence[str], n_samples: int
) -> Steps[ChoiceProbabilities]:
    """Counts replies; asks for all in one request where the model has a field `n`, and again for what is missing."""
    wanted = 1 if getattr(model, "temperature", None) == 0 else n_samples
    seed = getattr(model, "seed", None)
    many = "n" in type(model).model_fields and wanted > 1
    replies, usages = list[Generation](), list[Usage]()
    while (missing := wanted - len(replies)) > 0:
        # replies that share a seed would be copies of one another
        options = {} if seed is None else {"seed": seed + len(replies)}
        n_prompts = missing if seed is None else 1
        try:
            result = yield request({**options, "n": missing}) if many else request(options, n_prompts)
        except Exception as error:
            if not (many and _is_refusal(error)):
                raise
            many = False
            continue
        if not (received := _flat(result)):
            hint = "Call the model directly to see why"
            raise AgentError(f"{type(model).__name__} gave no reply", hint=hint, retryable=True)
        replies += received[:missing]
        usages.append(usage_of(result))
    read = [read_choice(text_of(reply), choices) for reply in replies]
    n_clear = sum(choice is not None for choice in read)
    if not n_clear:
        raise NoChoiceError(
            f"none of {wanted} replies of {type(model).__name__} was one of {_list_names(choices)}",
            hint="Ask for one of the choices and nothing else, and leave room for it in `max_tokens`",
        )
    shares = {choice: read.count(choice) / n_clear for choice in choices}
    return ChoiceProbabilities(shares, "sampled", n_clear / wanted, **add_usages(usages))


def _from_first_token(
    found: FirstToken, usage: Usage, choices: Sequence[str], method: ChoiceMethod
) -> ChoiceProbabilities:
    mass = None if method == "constrained" else found.mass
    return ChoiceProbabilities(found.probabilities(choices), method, mass, **usage)


def _is_refusal(error: Exception) -> bool:
    """Returns whether a call may have failed for an option that the model or its server does not take."""
    return status_of(error) in _REFUSALS or isinstance(error, TypeError | ValueError | NotImplementedError)


def _flat(result: LLMResult) -> list[Generation]:
    return [generation for prompt in result.generations for generation in prompt]


def _list_names(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def to_graded_reply(found: ChoiceProbabilities, request: AgentRequest, *, agent: str) -> AgentReply:
    """Returns the probabilities of choices as responses: one for each choice, of one token, and one for the rest."""
    mass = 1.0 if found.mass is None else found.mass
    shares = {choice: p * mass for choice, p in found.probabilities.items()} | {OTHER_REPLY: 1.0 - mass}
    rows = [(text, math.log(share)) for text, share in shares.items() if share > 0]
    responses = [
        create_response(agent, text, round=request["round"], index=index, logprob=logprob, n_tokens=1)
        for index, (text, logprob) in enumerate(rows, start=request.get("first_index", 0))
    ]
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
    usage = Usage(input_tokens=found.input_tokens, output_tokens=found.output_tokens)
    return AgentReply(responses=responses, usage=usage, sampling=sampling)
