"""Owns the detection of a model whose temperature has no effect: when to suspect it, how to test it, what to do.

A server may decode greedily whatever the request says, answer from a cache, or use one seed for all samples. Its
responses are then copies of one, and their agreement is no evidence of how sure the model is.

A suspected model is probed: it is asked for a text that a model that samples does not repeat. Different replies show
that it samples. Equal replies show that its temperature is ignored, if they are such a text; a model may also decline,
and always in the same words. So there are three probes, each sent only if the one before is declined or empty:

1. 40 random characters, of which at least 16 must be there in a row;
2. an invented story, at least 80 characters long and no refusal, which chat models do not decline;
3. the story at temperature 2, at which no model repeats even a refusal: equal replies settle it, unless they are empty.

A probe that fails is repeated with the next suspicious responses, three times in all. What is not settled then, or by
the third probe, stays unknown for the rest of the process: all responses count, and `Sampling.probe` says why.
"""

import math
import re
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from langchain_core.language_models import BaseChatModel

from coe_agents.agents._requests.endpoints import Server
from coe_agents.agents._requests.limits import Deadline
from coe_agents.agents._requests.parse import FEWEST, total
from coe_agents.agents._requests.steps import Steps, Wait
from coe_agents.clustering import answer_kind
from coe_agents.errors import AgentTimeoutError, IgnoredTemperatureError
from coe_agents.prompts import INVENTED_STORY, RANDOM_CHARACTERS
from coe_agents.types import AgentReply, AgentRequest, Response

OnGreedy = Literal["exclude", "count_once", "trust"]
_Key: TypeAlias = tuple[Hashable, ...]
_Send: TypeAlias = Callable[[Server, str, float], Steps[AgentReply]]
"""Sends a server a prompt at a temperature."""

_NO_SURPRISE = math.log(0.2)
"""From this chance on that samples are equal, the model's log-probabilities explain it."""
_SURPRISING = math.log(1e-3)
"""Below this chance equal replies to the probe are not chance."""
_FEWEST_TOKENS = 64
"""What 40 characters may take: a shorter reply might not reach the first random one."""
_MOST_TRIES = 3
"""How often probes may fail."""
_SETTINGS = ("model_name", "model", "top_p", "top_k", "min_p", "model_kwargs", "extra_body")
REMEDY = (
    'Use a server that samples, such as vLLM, or have this one sample ("do_sample": true in the model\'s '
    'generation_config.json for transformers serve). on_greedy="count_once" counts the responses as one'
)


@dataclass(frozen=True, slots=True)
class Probe:
    """A request whose replies differ if the model samples.

    Attributes:
        name: What it is called in a finding.
        prompt: The whole conversation.
        is_proof: Whether equal replies with this text show that the temperature is ignored.
        temperature: None for that of the responses.
    """

    name: str
    prompt: str
    is_proof: Callable[[str], bool]
    temperature: float | None = None


def _is_random(text: str) -> bool:
    return re.search("[A-Za-z0-9]{16}", text) is not None


def _is_story(text: str) -> bool:
    return len(text) >= 80 and answer_kind(text) == "answer"


_PROBES = (
    Probe("a request for 40 random characters", RANDOM_CHARACTERS, _is_random),
    Probe("a request for a story", INVENTED_STORY, _is_story),
    Probe("a request for a story at temperature 2", INVENTED_STORY, lambda text: bool(text.strip()), temperature=2.0),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """What probing a model showed.

    Attributes:
        is_ignored: Whether the temperature is ignored, since all replies are equal; None where that is not settled.
        account: What it replied, as one clause.
        log_chance: Log-probability that samples are equal by themselves; None where it is not known.
        is_final: Whether it holds for the rest of the process; a failure does not.
    """

    is_ignored: bool | None
    account: str
    log_chance: float | None = None
    is_final: bool = True

    def beside(self, suspected: Sequence[Response], temperature: float) -> "Finding":
        """Returns what it says of the responses that made the agent ask.

        If all replies are equal the temperature is ignored, unless log-probabilities say that this may be chance: the
        probability of all these replies and responses, were they samples, is at least 0.001. At a temperature below 1
        samples agree more often than that; how much more, log-probabilities do not show. The probability is raised to
        that power then.
        """
        if not self.is_ignored:
            return self
        both = -math.inf if self.log_chance is None else self.log_chance + (_log_chance(suspected) or 0.0)
        if both * min(temperature, 1.0) >= _SURPRISING:
            return Finding(None, f"{self.account}, and it may be sure of them")
        return Finding(True, f"{self.account}, too")


class Findings:
    """What is known of the models of this process; each is asked once, however many requests need it."""

    def __init__(self) -> None:
        self._found: dict[_Key, Future[Finding | None]] = {}
        self._n_failed: Counter[_Key] = Counter()
        self._lock = threading.RLock()  # a finalizer may run while it is held

    def claim(self, key: _Key) -> tuple[Future[Finding | None], bool]:
        """Returns the finding, and whether the caller must provide it, by `settle`."""
        with self._lock:
            if (known := self._found.get(key)) is not None:
                return known, False
            future = self._found[key] = Future[Finding | None]()
            future.set_running_or_notify_cancel()  # a waiting request cannot cancel it
            return future, True

    def settle(self, key: _Key, future: Future[Finding | None], finding: Finding | None) -> None:
        """Sets the finding; None if the caller was stopped, so that another one has to ask."""
        with self._lock:
            if (finding is None or not finding.is_final) and self._found.get(key) is future:
                del self._found[key]
        future.set_result(finding)

    def note_failure(self, key: _Key) -> int:
        """Notes that a probe failed, and returns how many did."""
        with self._lock:
            self._n_failed[key] += 1
            return self._n_failed[key]

    def note_sampling(self, key: _Key) -> None:
        """Notes that responses differ; if the temperature was ignored before, the server has changed since."""
        with self._lock:
            future = self._found.get(key)
            if future is not None and future.done() and (found := future.result()) and found.is_ignored:
                del self._found[key]

    def forget(self, identity: Hashable) -> None:
        """Drops the findings of a model that was garbage-collected."""
        with self._lock:
            for known in (self._found, self._n_failed):
                for key in [key for key in known if key[0] == identity]:
                    del known[key]


FINDINGS = Findings()


def identity_of(model: BaseChatModel, address: str) -> Hashable:
    """Returns the identity of a model in this process: its server, or the object itself."""
    if address:
        return type(model), address
    weakref.finalize(model, FINDINGS.forget, id(model)).atexit = False
    return id(model)


def may_be_probed(model: BaseChatModel, request: AgentRequest, on_greedy: OnGreedy) -> bool:
    """Returns whether equal responses are a reason to probe the model.

    Not where it has no temperature to ignore, nor where the request is for one of a few choices, or a verdict.
    """
    has_temperature = request["temperature"] > 0 and "temperature" in type(model).model_fields
    return has_temperature and on_greedy != "trust" and not ("choices" in request or request.get("is_review"))


def examine(
    reply: AgentReply,
    server: Server,
    send: _Send,
    deadline: Deadline,
    *,
    on_greedy: OnGreedy,
    temperature: float,
) -> Steps[AgentReply]:
    """Returns the reply with the responses that count; `server` is what `send` is given.

    Raises:
        IgnoredTemperatureError: If a server ignores the temperature, and `on_greedy` is "exclude".
    """
    said = reply["responses"]
    if not _are_copies(said):
        FINDINGS.note_sampling(_key_of(server, temperature))
    elif _are_suspicious(said):
        found = yield from _find(server, reply, send, deadline, temperature)
        return _count(reply, server.address, found.beside(said, temperature), on_greedy, temperature)
    return reply


def _find(server: Server, reply: AgentReply, send: _Send, deadline: Deadline, temperature: float) -> Steps[Finding]:
    """Returns what is known of a server, or what probing it shows; the tokens of probes are added to the reply's."""
    key = _key_of(server, temperature)
    found: Finding | None = None
    while found is None:
        future, is_mine = FINDINGS.claim(key)
        if not is_mine:
            try:
                found = yield Wait(future, deadline.seconds_left())
            except (TimeoutError, AgentTimeoutError) as error:
                late = f"{type(error).__name__}: {error}".rstrip(": ")
                found = Finding(None, f"a probe was not answered in time: {late}", is_final=False)
            continue
        try:
            found = yield from _probe(_make_room(server), reply, send, temperature, key)
        finally:
            FINDINGS.settle(key, future, found)
    return found


def _probe(server: Server, reply: AgentReply, send: _Send, temperature: float, key: _Key) -> Steps[Finding]:
    """Sends the probes until one is settled or fails, or all were declined."""
    found = Finding(None, "")
    for one in _PROBES:
        probed = yield from send(server, one.prompt, temperature if one.temperature is None else one.temperature)
        reply["usage"] = total([reply["usage"], probed["usage"]])
        read = _read(one, probed)
        if read is None:
            n_failed = FINDINGS.note_failure(key)
            is_final = n_failed >= _MOST_TRIES
            tries = f"try {n_failed} of {_MOST_TRIES}{', the last' if is_final else ''}"
            return Finding(None, f"{one.name} failed: {probed['sampling']['error']} ({tries})", is_final=is_final)
        found = read
        if found.is_ignored is not None:
            break
    return found


def _key_of(server: Server, temperature: float) -> _Key:
    """Returns under which key a finding is kept: the model, its server, and the settings that samples depend on."""
    model = server.model
    settings = repr([getattr(model, name, None) for name in _SETTINGS])
    return server.identity, settings, getattr(model, "seed", None) is not None, temperature


def _make_room(server: Server) -> Server:
    """Returns the server with room for the probe's reply, where the agent's `max_tokens` leaves none."""
    most = getattr(server.model, "max_tokens", None)
    if not isinstance(most, int) or most >= _FEWEST_TOKENS:
        return server
    return replace(server, model=server.model.model_copy(update={"max_tokens": _FEWEST_TOKENS}))


def _read(probe: Probe, reply: AgentReply) -> Finding | None:
    """Returns what the replies to a probe show; None if the probe failed."""
    replies = reply["responses"]
    given = f"its {len(replies)} replies to {probe.name}"
    if not _are_copies(replies):
        return Finding(False, f"{given} differ")
    if reply["sampling"]["error"] is not None or len(replies) < FEWEST:
        return None
    text = replies[0]["text"]
    if not text.strip():
        return Finding(None, f"{given} are empty")
    return Finding(True if probe.is_proof(text) else None, f"{given} are equal", _log_chance(replies))


def _count(reply: AgentReply, address: str, found: Finding, on_greedy: OnGreedy, temperature: float) -> AgentReply:
    """Returns the reply with what was found in its sampling record, and the responses that count."""
    reply["sampling"]["probe"] = found.account
    reply["sampling"]["ignores_temperature"] = found.is_ignored
    if not found.is_ignored:
        return reply
    if on_greedy == "exclude":
        reply["sampling"]["counted"] = "not"
        raise IgnoredTemperatureError(
            f"the temperature of {temperature:g} has no effect{f' at {address}' if address else ''}: "
            f"{len(reply['responses'])} responses are equal, and {found.account}. The server ignores it, answers from "
            "a cache, or uses one seed for all",
            hint=REMEDY,
            usage=reply["usage"],
            sampling=reply["sampling"],
        )
    reply["sampling"]["counted"] = "once"
    reply["responses"] = reply["responses"][:1]
    reply.pop("messages", None)  # they are of all responses
    return reply


def _are_copies(responses: Sequence[Response]) -> bool:
    """Returns whether texts are equal and, as far as is known, made of equally many tokens."""
    lengths = {response["n_tokens"] for response in responses} - {None}
    return len({response["text"] for response in responses}) <= 1 and len(lengths) <= 1


def _are_suspicious(responses: Sequence[Response]) -> bool:
    if len(responses) < FEWEST or not _are_copies(responses):
        return False
    log_chance = _log_chance(responses)
    return log_chance is None or log_chance < _NO_SURPRISE


def _log_chance(responses: Sequence[Response]) -> float | None:
    """Returns the log-probability that samples repeat the first response: the sum of the others'.

    None where some are not known or all are 0: servers that cut to the likeliest token may give 0 for each.
    """
    known = [response["logprob"] for response in responses if response["logprob"] is not None]
    return math.fsum(known[1:]) if len(known) == len(responses) and any(known) else None
