"""Owns what probes of servers found: kept in this process, and for a day in a cache on the disk.

The cache is the folder `COE_CACHE_DIR`, else `XDG_CACHE_HOME/coe-agents`, else `~/.cache/coe-agents`. It holds neither
keys nor texts. What cannot be read there is as if it were not there, and what cannot be written is asked again.
"""

import hashlib
import json
import os
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from coe_agents import files
from coe_agents._steps import Call, Steps, Wait
from coe_agents.agents._requests.endpoints import Deadline, Places, Server
from coe_agents.errors import AgentTimeoutError

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


class Findings:
    """What is known of the servers of this process; each is asked once, however many requests need it."""

    def __init__(self) -> None:
        self._known = weakref.WeakKeyDictionary[Places, dict[str, Future[Finding | None]]]()
        self._lock = threading.Lock()

    def look_up(self, server: Server, ask: Callable[[], Steps[Finding]], deadline: Deadline) -> Steps[Finding]:
        """Returns what is known of a server, or else what `ask` finds; other requests wait for that one."""
        key, found = _key_of(server), None
        while found is None:
            with self._lock:
                known = self._known.setdefault(server.places, {})
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
                if before is None:  # what this process knew is newer than the cache
                    found = yield Call(_read, None, (server, key))
                if found is None:
                    found = yield from ask()
                    yield Call(_write, None, (server, key, found))
            finally:
                future.set_result(found)  # None if this request was stopped: another one has to ask
        return found

    def note_sampling(self, server: Server) -> None:
        """Notes that responses differ: if the server ignored the temperature before, it has changed since."""
        with self._lock:
            known, key = self._known.setdefault(server.places, {}), _key_of(server)
            future = known.get(key)
            if future is None or (future.done() and (found := future.result()) and found.is_ignored):
                known[key] = Future[Finding | None]()
                known[key].set_result(Finding(None, "", checked=-_DAY))


FINDINGS = Findings()


def _wait(future: "Future[Finding | None]", deadline: Deadline) -> Steps[Finding | None]:
    try:
        found: Finding | None = yield Wait(future, deadline.seconds_left())
    except (TimeoutError, AgentTimeoutError) as error:
        late = f"{type(error).__name__}: {error}".rstrip(": ")
        return Finding(None, f"a probe was not answered in time: {late}")
    return found


def _key_of(server: Server) -> str:
    model = server.model
    settings = [getattr(model, name, None) for name in _SETTINGS]
    is_seeded = getattr(model, "seed", None) is not None
    described = repr((type(model).__name__, server.address, settings, is_seeded))
    return hashlib.sha256(described.encode(errors="replace")).hexdigest()[:32]


def _path(server: Server, key: str) -> Path | None:
    """Returns the file of a finding; None for a model in this process, or where there is no folder for it."""
    if not server.address:
        return None
    if given := os.environ.get("COE_CACHE_DIR"):
        folder = Path(given)
    elif given := os.environ.get("XDG_CACHE_HOME"):
        folder = Path(given) / "coe-agents"
    else:
        try:
            folder = Path.home() / ".cache" / "coe-agents"
        except RuntimeError:
            return None
    return folder / "probes" / f"{key}.json"


def _read(server: Server, key: str) -> Finding | None:
    path = _path(server, key)
    if path is None:
        return None
    try:
        said = json.loads(path.read_bytes())
        found = Finding(is_ignored=said["is_ignored"], account=said["account"], checked=float(said["checked"]))
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    is_sound = isinstance(found.is_ignored, bool) and isinstance(found.account, str)
    return found if is_sound and found.holds else None


def _write(server: Server, key: str, found: Finding) -> None:
    path = _path(server, key)
    if path is None or found.is_ignored is None:
        return
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        files.write(path, json.dumps(asdict(found)).encode())
