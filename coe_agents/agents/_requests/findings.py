"""Owns what probes of servers found: kept in this process, for a day."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from coe_agents._steps import Steps, Wait
from coe_agents.agents._requests.endpoints import Server
from coe_agents.agents._requests.limits import Deadline
from coe_agents.errors import AgentTimeoutError

_LOCK = threading.Lock()
_AT_ADDRESSES = dict[str, Future[Any]]()
"""What is known of servers; what is known of a model in this process is kept as long as there is an agent of it."""
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
        """Whether it is still young enough."""
        return 0 <= time.time() - self.checked < (_WHILE if self.is_ignored is None else _DAY)


def look_up(server: Server, ask: Callable[[], Steps[Finding]], deadline: Deadline) -> Steps[Finding]:
    """Returns what is known of a server, or else what `ask` finds; other requests wait for that one."""
    (known, key), found = _place_of(server), None
    while found is None:
        with _LOCK:
            former = known.get(key)
            before = former.result() if former is not None and former.done() else None
            is_mine = former is None or (former.done() and not (before and before.holds))
            if is_mine:
                future = known[key] = Future[Finding | None]()
                future.set_running_or_notify_cancel()  # a waiting request cannot cancel it
        if former is not None and not is_mine:
            found = yield from _wait(former, deadline)
            continue
        try:
            found = yield from ask()
        finally:
            future.set_result(found)  # None if this request was stopped: another one has to ask
    return found


def note_sampling(server: Server) -> None:
    """Notes that responses differ: if the server ignored the temperature before, it has changed since."""
    known, key = _place_of(server)
    with _LOCK:
        future = known.get(key)
        if future is not None and future.done() and (found := future.result()) and found.is_ignored:
            del known[key]


def _wait(future: "Future[Finding | None]", deadline: Deadline) -> Steps[Finding | None]:
    try:
        found: Finding | None = yield Wait(future, deadline.seconds_left())
    except (TimeoutError, AgentTimeoutError) as error:
        late = f"{type(error).__name__}: {error}".rstrip(": ")
        return Finding(None, f"a probe was not answered in time: {late}")
    return found


def _place_of(server: Server) -> tuple[dict[str, Future[Any]], str]:
    """Returns where a finding is kept: by the server, its model, and the settings that samples depend on."""
    model = server.model
    settings = [getattr(model, name, None) for name in _SETTINGS]
    key = repr((type(model).__name__, server.address, settings, getattr(model, "seed", None) is not None))
    return _AT_ADDRESSES if server.address else server.places.findings, key
