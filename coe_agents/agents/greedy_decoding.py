"""Owns the detection of a model whose temperature has no effect: when to suspect it, how to test it, what to do.

A server may decode greedily whatever the request says, answer from a cache, or use one seed for all samples. Its
responses are then copies of one, and their agreement is no evidence of how sure the model is.

Where equal responses have log-probabilities, these tell: n samples with the probability p are equal by chance with the
probability p^(n - 1). Without them the server is asked once for an invented story, which chat models neither decline
nor write twice in the same words. Equal replies show that its temperature is ignored; the tokens of the probe count in
the reply that caused it.

What probes found is kept in this process for a day.
"""

import math
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from langchain_core.language_models import BaseChatModel

from coe_agents._steps import Steps
from coe_agents.agents.requests.send import Deadline, Places, Server
from coe_agents.errors import AgentTimeoutError, IgnoredTemperatureError
from coe_agents.prompts import INVENTED_STORY
from coe_agents.types import AgentReply, AgentRequest, Response, add_usages, usable

_DAY = 86_400.0
_WHILE = 600.0
"""For how many seconds a server is not asked again that failed, or gave a reply that tells nothing."""
_SETTINGS = ("model_name", "model", "top_p", "top_k", "min_p", "model_kwargs", "extra_body")
"""Fields that samples depend on, beside the temperature and the seed."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a server's replies show.

    Attributes:
        is_ignored: Whether it ignores the temperature; None where that is not known.
        account: What it replied, as one clause.
        checked: When, in seconds since 1970.
    """

    is_ignored: bool | None
    account: str
    checked: float = field(default_factory=time.time)

    @property
    def holds(self) -> bool:
        age = time.time() - self.checked
        longest = _WHILE if self.is_ignored is None else _DAY
        return 0 <= age < longest


@dataclass(slots=True)
class _Known:
    """What is known of a server; who asks it holds the one place."""

    finding: Finding | None = None
    asking: Places = field(default_factory=lambda: Places(1))


class Findings:
    """What is known of the servers of this process; each is asked once, however many requests need it."""

    def __init__(self) -> None:
        self._by_address: dict[str, _Known] = {}
        # of models in this process, as long as an agent has them
        self._known = weakref.WeakKeyDictionary[Places, dict[str, _Known]]()

    def _known_of(self, server: Server) -> _Known:
        known = self._by_address
        if not server.address:
            known = self._known.setdefault(server.places, {})
        return known.setdefault(_key_of(server), _Known())

    def look_up(
        self, server: Server, ask: Callable[[], Steps[Finding]], deadline: Deadline
    ) -> Steps[Finding]:
        """Returns what is known of a server, or else what `ask` finds; other requests wait for that one."""
        known = self._known_of(server)
        turn = known.asking.queue()
        try:
            yield from known.asking.wait(turn, deadline.seconds_left())
            if known.finding is None or not known.finding.holds:
                known.finding = yield from ask()
            return known.finding
        except AgentTimeoutError:
            return Finding(None, "a probe was not answered in time")
        finally:
            known.asking.leave(turn)  # if this request was stopped, the next one asks

    def note_sampling(self, server: Server) -> None:
        """Notes that responses differ: if the server ignored the temperature before, it has changed since."""
        known = self._known_of(server)
        if known.finding is None or known.finding.is_ignored:
            known.finding = Finding(None, "", checked=-_DAY)


FINDINGS = Findings()


def _key_of(server: Server) -> str:
    model = server.model
    settings = [getattr(model, name, None) for name in _SETTINGS]
    is_seeded = getattr(model, "seed", None) is not None
    return repr((type(model).__name__, server.address, settings, is_seeded))


OnGreedy = Literal["exclude", "count_once", "trust"]
_Send: TypeAlias = Callable[[Server, str, float], Steps[AgentReply]]
"""Sends a server a prompt at a temperature."""

_FEWEST = 3
"""How many equal responses are a reason to look closer."""
_NO_CHANCE = math.log(1e-6)
"""Below this chance equal responses are no samples.

A question whose n samples all have a probability p with p^(n - 1) < 1e-6 has equal samples with a probability of at
most 1e-6, the sum of p * p^(n - 1) over such texts. So of a million questions one reply is wrongly taken for copies.
"""
_PROBE_TEMPERATURE = 1.0
"""Every server takes it. At a lower one of their own, models that sample repeat themselves more often."""
_FEWEST_TOKENS = 64
"""What two sentences take: shorter stories might begin alike."""
REMEDY = (
    'Use a server that samples, such as vLLM, or have this one sample ("do_sample": true in the model\'s '
    'generation_config.json for transformers serve). on_greedy="count_once" of the ModelAgent, or of its [[agents]], '
    "counts them as one"
)


def may_be_probed(model: BaseChatModel, request: AgentRequest, on_greedy: OnGreedy) -> bool:
    """Returns whether equal responses are a reason to suspect the model.

    Not where it has no temperature to ignore, nor where the request is for one of a few choices, or a verdict.
    """
    if on_greedy == "trust" or "choices" in request or request.get("is_review"):
        return False
    return request["temperature"] > 0 and "temperature" in type(model).model_fields


def examine(
    reply: AgentReply,
    server: Server,
    send: _Send,
    deadline: Deadline,
    *,
    on_greedy: OnGreedy,
    temperature: float,
) -> Steps[AgentReply]:
    """Returns the reply with the responses that count; `send` asks the `server` that it came from."""
    responses = usable(reply["responses"])
    if not _are_copies(responses):
        FINDINGS.note_sampling(server)
        return reply
    if len(responses) < _FEWEST:
        return reply
    log_chance = _log_chance(responses)
    if log_chance is None:
        finding = yield from FINDINGS.look_up(server, lambda: _probe(reply, server, send), deadline)
    else:
        # below 1 samples agree more often than log-probabilities say: the chance to that power is on the safe side
        if log_chance * min(temperature, 1.0) >= _NO_CHANCE:
            return reply
        account = f"its log-probabilities give equal samples a chance of exp({log_chance:.0f})"
        finding = Finding(True, account)
    return _count(reply, server.address, finding, on_greedy, temperature)


def _probe(reply: AgentReply, server: Server, send: _Send) -> Steps[Finding]:
    """Returns what the server replies to the probe; its tokens are added to the reply's."""
    max_tokens = getattr(server.model, "max_tokens", None)
    if isinstance(max_tokens, int) and max_tokens < _FEWEST_TOKENS:
        model = server.model.model_copy(update={"max_tokens": _FEWEST_TOKENS})
        server = replace(server, model=model)

    probed = yield from send(server, INVENTED_STORY, _PROBE_TEMPERATURE)
    reply["usage"] = add_usages([reply["usage"], probed["usage"]])
    stories = usable(probed["responses"])
    error = probed["sampling"]["error"]
    replies = f"its {len(stories)} replies to a request for a story"
    if not _are_copies(stories):
        return Finding(False, f"{replies} differ")
    if error is not None or len(stories) < _FEWEST:
        return Finding(None, f"a request for a story failed: {error}")
    if not stories[0]["text"].strip():
        return Finding(None, f"{replies} are empty")
    return Finding(True, f"{replies} are equal, too")


def _count(
    reply: AgentReply, address: str, finding: Finding, on_greedy: OnGreedy, temperature: float
) -> AgentReply:
    sampling = reply["sampling"]
    sampling["probe"] = finding.account
    sampling["ignores_temperature"] = finding.is_ignored
    if not finding.is_ignored:
        return reply
    n_responses = len(reply["responses"])
    if on_greedy == "exclude":
        sampling["counted"] = "not"
        where = f" at {address}" if address else ""
        ignored = IgnoredTemperatureError(
            f"the temperature of {temperature:g} has no effect{where}: {n_responses} responses are equal, and "
            f"{finding.account}. The server ignores it, answers from a cache, or uses one seed for all",
            hint=REMEDY,
        )
        ignored.usage = reply["usage"]
        ignored.sampling = sampling
        raise ignored
    sampling["counted"] = "once"
    reply["responses"] = usable(reply["responses"])[:1]
    reply.pop("messages", None)  # they are of all responses
    return reply


def _are_copies(responses: Sequence[Response]) -> bool:
    """Returns whether texts and confidences are equal and, as far as is known, made of equally many tokens."""
    contents = {(response["text"], response["confidence"]) for response in responses}
    lengths = {response["n_tokens"] for response in responses} - {None}
    return len(contents) <= 1 and len(lengths) <= 1


def _log_chance(responses: Sequence[Response]) -> float | None:
    """Returns the log-probability that samples repeat the first response: the sum of the others'.

    None where some are not known or all are 0: servers that cut to the likeliest token may give 0 for each.
    """
    logprobs = list[float]()
    for response in responses:
        if response["logprob"] is None:
            return None
        logprobs.append(response["logprob"])
    if not any(logprobs):
        return None
    return math.fsum(logprobs[1:])
