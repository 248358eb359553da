"""Owns the detection of what a model supports: several responses per request or one, and which options."""

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from langchain_core.language_models import BaseChatModel
from langchain_core.outputs import LLMResult

from coe_agents._steps import Steps, Together
from coe_agents.errors import CoEError
from coe_agents.types import AgentRequest, Fields, JsonObject

_CALL_ONLY = {"ChatHuggingFace": ("logprobs", "seed")}
"""Options that a class takes as a field and does not send; it sends them when given with the call."""
_REFUSABLE = ("stream", "logprobs", "n", "seed", "temperature", "timeout")


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One request to a model.

    Attributes:
        settings: Fields of the model that are other than it was set up with.
        options: What only a call can set.
        timeout: The most seconds that the call can be given; None if the client takes no such option.
        offset: Which of the agent's responses the first is.
        refusable: The options that the model may refuse, and that can then be omitted.
    """

    settings: Fields
    options: Fields
    timeout: float | None
    n: int
    offset: int
    refusable: tuple[str, ...]

    def on(self, model: BaseChatModel) -> BaseChatModel:
        return model.model_copy(update=self.settings) if self.settings else model

    def arguments(self, seconds: float | None) -> JsonObject:
        arguments = dict(self.options)
        if self.timeout is not None and seconds is not None:
            arguments["timeout"] = min(seconds, self.timeout)
        return arguments


@dataclass(slots=True)
class Drawn:
    """What a model returned: replies that count, replies that do not, and what ended it early."""

    results: list[LLMResult] = field(default_factory=list)
    unused: list[LLMResult] = field(default_factory=list)
    failure: CoEError | None = None

    @property
    def answered(self) -> list[LLMResult]:
        return self.results + self.unused

    @property
    def n_received(self) -> int:
        return sum(len(result.generations[0]) for result in self.results)


class Ladder:
    """What one model takes, remembered for all requests to it.

    The rungs: all responses in one request with log-probabilities; in one request without; one request each with; one
    request each without. A rung is left when the model refuses the option, or answers a request for several with one.

    Attributes:
        refused: The options that the model refused, in order.
        takes_several: Whether one request brings all responses, as far as is known.
        is_proven: Whether the model has answered a request of the present rung.
    """

    def __init__(self, model: BaseChatModel) -> None:
        self._defaults = {name: getattr(model, name, None) for name in _REFUSABLE}
        self._longest_timeout = _longest_timeout(model)
        self._fields = type(model).model_fields
        self._by_call = list[str]()
        for kind in type(model).__mro__:
            self._by_call += _CALL_ONLY.get(kind.__name__, ())
        self._unset = JsonObject()
        self.takes_several = "n" in self._fields
        self.is_proven = False
        self._lock = threading.Lock()
        self.refused: list[str] = []

    def calls(
        self,
        missing: int,
        offset: int,
        seed_of: Callable[[int], int | None],
        temperature: float,
        needed: str = "",
    ) -> list[ModelCall]:
        """Returns the requests to send at once for `missing` responses; only one until the first is answered."""
        if self.takes_several:
            return [self._call(missing, offset, seed_of(offset), temperature, needed)]

        n_calls = missing if self.is_proven else 1
        calls = []
        for place in range(offset, offset + n_calls):
            calls.append(self._call(1, place, seed_of(place), temperature, needed))
        return calls

    def _takes(self, option: str) -> bool:
        return option in self._fields and option not in self.refused

    def _call(
        self, n: int, offset: int, seed: int | None, temperature: float, needed: str
    ) -> ModelCall:
        settings = dict(self._unset)
        options = JsonObject()
        if self._takes("temperature"):
            settings["temperature"] = temperature
        if self.takes_several:
            options["n"] = n
        if "streaming" in self._fields and "stream" not in self.refused:
            options["stream"] = False  # streamed choices would be merged into one
        if "logprobs" in self._by_call and "logprobs" not in self.refused:
            options["logprobs"] = True
        if seed is not None and self._takes("seed"):
            # not every client takes it with the call
            if "seed" in self._by_call:
                options["seed"] = seed
            else:
                settings["seed"] = seed
        timeout = None if "timeout" in self.refused else self._longest_timeout

        sent = {**self._defaults, **settings, **options, "timeout": timeout}
        refusable = list[str]()
        for name in _REFUSABLE:
            if name not in self.refused and name != needed and sent[name] is not None:
                refusable.append(name)
        return ModelCall(settings, options, timeout, n, offset, tuple(refusable))

    def refuse(self, option: str) -> None:
        """Notes that the model does not accept an option, and omits it from now on."""
        with self._lock:
            if option not in self.refused:
                self.refused.append(option)
                unset = dict(self._unset)
                # "top_logprobs" is nothing without "logprobs"
                for name in (option, f"top_{option}"):
                    if name in self._fields:
                        unset[name] = self._fields[name].default
                self._unset = unset  # a new one, since other threads may read the old one
            if option == "n":
                self.takes_several = False
            self.is_proven = False


def _longest_timeout(model: BaseChatModel) -> float | None:
    """Returns the seconds that a call to ChatOpenAI may be given, the model's own at most; None if unknown.

    Its client is made with the model, so setting the model's field has no effect.
    """
    seconds = getattr(model, "request_timeout", None)
    if not hasattr(model, "root_client") or not isinstance(seconds, int | float | None):
        return None
    return math.inf if seconds is None else seconds


def draw(
    ladder: Ladder,
    request: AgentRequest,
    seed_of: Callable[[int], int | None],
    ask: Callable[[ModelCall], Steps[LLMResult | CoEError]],
    needed: str,
) -> Steps[Drawn]:
    """Sends requests, until all responses are there or one failed.

    A single response to a request for several is not used: it may be all of them run together, as a client that streams
    would have it. `seed_of` gives the seed of the agent's response of a number. Without the option `needed` responses
    are of no use: if the model refuses it, the request fails.
    """
    drawn = Drawn()
    offset = 0
    while drawn.failure is None:
        missing = request["n_samples"] - drawn.n_received
        if missing <= 0:
            break
        calls = ladder.calls(missing, offset, seed_of, request["temperature"], needed)
        outcomes = yield Together([ask(call) for call in calls])
        # after a failure the rest may not have been sent
        for call, outcome in zip(calls, outcomes, strict=False):
            if isinstance(outcome, CoEError):
                option = getattr(outcome, "option", None)
                if option is not None:
                    ladder.refuse(option)
                elif drawn.failure is None:
                    drawn.failure = outcome
                continue

            ladder.is_proven = True
            n_received = len(outcome.generations[0])
            if call.n > 1 and n_received == 1:
                ladder.takes_several = False
                drawn.unused.append(outcome)
            else:
                drawn.results.append(outcome)
                offset = max(offset, call.offset + n_received)
    return drawn
