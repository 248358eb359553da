"""Owns what probes of servers found: kept in this process, and for a day in a cache on the disk.

The cache is the folder `COE_CACHE_DIR`, else `XDG_CACHE_HOME/coe-agents`, else `~/.cache/coe-agents`. It holds neither
keys nor texts. What cannot be read there is as if it were not there, and what cannot be written is asked again.
"""

import hashlib
import json
import os
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from coe_agents import files
from coe_agents._steps import Call, Steps
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
        return 0 <= time.time() - self.checked < (_WHILE if self.is_ignored is None else _DAY)


@dataclass(slots=True)
class _Known:
    """What is known of a server; who asks it holds the one place."""

    found: Finding | None = None
    asking: Places = field(default_factory=lambda: Places(1))


class Findings:
    """What is known of the servers of this process; each is asked once, however many requests need it."""

    def __init__(self) -> None:
        self._known = weakref.WeakKeyDictionary[Places, dict[str, _Known]]()

    def look_up(self, server: Server, ask: Callable[[], Steps[Finding]], deadline: Deadline) -> Steps[Finding]:
        """Returns what is known of a server, or else what `ask` finds; other requests wait for that one."""
        key = _key_of(server)
        known = self._known.setdefault(server.places, {}).setdefault(key, _Known())
        turn = known.asking.queue()
        try:
            yield from known.asking.wait(turn, deadline.seconds_left())
            if known.found is None and server.address:  # what this process knew is newer than the cache
                known.found = yield Call(_read, None, (key,))
            if known.found is None or not known.found.holds:
                known.found = yield from ask()
                if server.address and known.found.is_ignored is not None:
                    yield Call(_write, None, (key, known.found))
            return known.found
        except AgentTimeoutError:
            return Finding(None, "a probe was not answered in time")
        finally:
            known.asking.leave(turn)  # if this request was stopped, the next one asks

    def note_sampling(self, server: Server) -> None:
        """Notes that responses differ: if the server ignored the temperature before, it has changed since."""
        known = self._known.setdefault(server.places, {}).setdefault(_key_of(server), _Known())
        if known.found is None or known.found.is_ignored:
            known.found = Finding(None, "", checked=-_DAY)


FINDINGS = Findings()


def _key_of(server: Server) -> str:
    model = server.model
    settings = [getattr(model, name, None) for name in _SETTINGS]
    is_seeded = getattr(model, "seed", None) is not None
    described = repr((type(model).__name__, server.address, settings, is_seeded))
    return hashlib.sha256(described.encode(errors="replace")).hexdigest()[:32]


def _path(key: str) -> Path:
    """The file of a finding; RuntimeError where there is no home."""
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("COE_CACHE_DIR") or Path(caches, "coe-agents"), "probes", f"{key}.json")


def _read(key: str) -> Finding | None:
    with suppress(OSError, LookupError, ValueError, TypeError, RuntimeError):  # RecursionError is one
        said = json.loads(_path(key).read_bytes())
        is_sound = isinstance(said["is_ignored"], bool) and isinstance(said["account"], str)
        if is_sound and (found := Finding(**said)).holds:
            return found
    return None


def _write(key: str, found: Finding) -> None:
    with suppress(OSError, RuntimeError):
        path = _path(key)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        files.write(path, json.dumps(asdict(found)).encode())
