"""Owns the connection to a Ray cluster, and a pool of its actors that works through parts."""

import asyncio
import json
import logging
import math
import os
import socket
import sys
import time
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from coe_agents import errors
from coe_agents.errors import CoEError, ConfigurationError, StoreError
from coe_agents.text import first_line

_SECONDS_TO_CONNECT = 10.0
_PATIENCE = 30.0
"""Seconds after which a pool without a single actor warns that it waits for room on the cluster."""
_ATTEMPTS = 3
"""How often a part is tried when the process or the machine that works on it is lost."""

_Part = tuple[int, bytes]
"""A part's number, and its input."""
Work = Callable[[bytes], Coroutine[Any, Any, bytes]]
"""Computes the result of a part from its input; always in one event loop, since clients are bound to theirs."""
GiveUp = Callable[[bytes, str], bytes]
"""Makes the result of a part that no actor finished, from its input and the reason."""


@dataclass(frozen=True, slots=True)
class Pool:
    """The actors that share the work. Each takes one CPU, one part at a time, and `n_gpus`; 0.5 lets two share one.

    An actor that works on a part for more than `seconds` is ended, and counts as lost.
    """

    n_actors: int
    n_gpus: float = 0.0
    seconds: float = 3600.0


@contextmanager
def cluster(address: str | None = None) -> Iterator[None]:
    """Joins a Ray cluster, or starts one on this machine that only loopback reaches; a cluster joined before is kept.

    `address` is as Ray has it, such as "10.0.0.1:6379" or "auto"; without it the environment variable RAY_ADDRESS
    counts, else a cluster is started, without dashboard and usage statistics, and ended with the context. A
    ConfigurationError if nothing listens there. Ray prints messages about lost processes and machines; until the
    context ends, they go to standard error.
    """
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    options: dict[str, Any] = {}
    if address == "local":
        options = {"include_dashboard": False}
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        # Ray's switch for a cluster of one machine; it is read when Ray is imported
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    ray = _ray()
    if ray.is_initialized():
        yield
        return
    _check_listens(address)
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # what it would log is raised, too
    with redirect_stdout(sys.stderr):
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **options)
        try:
            yield
        finally:
            ray.shutdown()


def cut_parts(values: Iterable[object], size: int) -> Iterator[bytes]:
    """Yields so many values of JSON after the other, packed, when a part is asked for."""
    waiting = iter(values)
    while part := list(islice(waiting, size)):
        yield pack(part)


def pack(value: object) -> bytes:
    """Returns JSON as a part carries it, compressed."""
    return zlib.compress(json.dumps(value).encode())


def unpack(content: bytes) -> Any:
    """Returns what `pack` packed."""
    return json.loads(zlib.decompress(content))


def n_nodes() -> int:
    """Returns how many machines the cluster has now."""
    return sum(node["Alive"] for node in _ray().nodes())


def work_through(
    parts: Iterable[bytes], create: Callable[[], Work], pool: Pool, give_up: GiveUp
) -> Iterator[bytes]:
    """Yields the result of each part once, in the order in which they finish.

    The parts are read as they are needed: at any time one is in hand for each actor, and one more is prepared. So
    neither this process nor Ray's object store holds more than that of them, however many there are. `create` is called
    once in every actor, with its first part. An actor that is lost is replaced, and its part is tried again, by
    whichever actor is free first. A part that lost three actors is likely to be why: `give_up` makes its result, here.

    Raises:
        CoEError: Or ValueError, ImportError or OSError, as the work or `create` raised it.
        StoreError: If these raised something else, or the cluster failed for good.
        TypeError: If `create` cannot be sent to an actor.
    """
    upcoming = iter(parts)
    first = next(upcoming, None)
    if first is None:
        return
    ray = _ray()
    with _Workers(create, pool, give_up) as workers:
        try:
            yield from workers.map(enumerate(chain((first,), upcoming)))
        except ray.exceptions.RayError as error:
            what = first_line(str(error)) or type(error).__name__
            hint = "Finished parts are kept; rerun the same command to resume"
            raise StoreError(f"the cluster failed: {what}", hint=hint) from error


class MapWorker:
    """One of the pool, as an actor of Ray."""

    def __init__(self, create: bytes) -> None:
        self._create = create
        self._work: Work | None = None
        self._runner = asyncio.Runner()

    def start(self) -> None:
        """Returns once the actor runs."""

    def work(self, content: bytes) -> tuple[bytes, str | None]:
        """Returns the result of a part, or an error as data, since Ray would wrap its text in its own."""
        try:
            if self._work is None:
                create = _ray().cloudpickle.loads(self._create)
                self._work = create()
            return self._runner.run(self._work(content)), None
        # whatever a user's clusterer or client raises: the driver raises it again
        except Exception as error:
            return b"", _to_json(error)


@dataclass(eq=False, slots=True)
class _Actor:
    """One of Ray's actors; it works on a part, or is idle, or starts.

    Attributes:
        end: When its time for the part is over.
        is_late: Whether that time is over, so that it is ended.
    """

    handle: Any
    part: _Part | None = None
    end: float = math.inf
    is_late: bool = False


class _Workers:
    def __init__(self, create: Callable[[], Work], pool: Pool, give_up: GiveUp) -> None:
        self._ray = _ray()
        self._pool = pool
        self._give_up = give_up
        try:
            self._create = self._ray.cloudpickle.dumps(create)
        except Exception as error:  # what a class of the user's raises
            raise TypeError(
                f'"create" must be picklable, as it is called in the actors; got {type(error).__name__}: {error}. '
                "Create clients, locks and files inside it"
            ) from error
        self._actors = set[_Actor]()
        self._idle = list[_Actor]()
        self._lost = list[_Part]()
        self._awaited = dict[Any, _Actor]()
        """The actor behind each pending result; those of `start` are among them."""
        self._n_lost = Counter[int | None]()
        """How often each part in hand lost its actor; None: actors that ended as they started, in a row."""
        as_remote = self._ray.remote(num_cpus=1, num_gpus=pool.n_gpus, scheduling_strategy="SPREAD")
        self._remote = as_remote(MapWorker)

    def __enter__(self) -> "_Workers":
        return self

    def __exit__(self, *exception: object) -> None:
        for actor in self._actors:
            self._end(actor)

    def map(self, parts: Iterator[_Part]) -> Iterator[bytes]:
        prepared = next(parts, None)
        for _ in range(self._pool.n_actors):
            self._start()
        while prepared or self._lost or self._busy():
            result = self._next_result()
            # before the result is kept, so that no actor waits for the disk
            while self._idle and (self._lost or prepared):
                if self._lost:
                    self._give(self._lost.pop())
                elif prepared:
                    self._give(prepared)
                    prepared = next(parts, None)
            if result is not None:
                yield result

    def _next_result(self) -> bytes | None:
        """Returns the result of the next part that ends; None where an actor has started, or is lost with its part."""
        ended = self._wait()
        actor = self._awaited.pop(ended)
        part = actor.part
        actor.part = None
        actor.end = math.inf
        content: bytes | None
        try:
            # an actor that started returns nothing
            content, fault = self._ray.get(ended) or (None, None)
        except _lost_errors(self._ray) as error:
            self._end(actor)
            content = self._note_loss(part, error, is_late=actor.is_late)
            self._replace(actor)
            return content
        if fault is not None:
            raise _from_json(fault)
        self._n_lost.pop(None if part is None else part[0], 0)
        if actor.is_late:  # it was ended as it finished
            self._replace(actor)
        else:
            self._idle.append(actor)
        return content

    def _start(self) -> None:
        handle = self._remote.remote(self._create)
        actor = _Actor(handle)
        self._actors.add(actor)
        self._awaited[handle.start.remote()] = actor

    def _replace(self, actor: _Actor) -> None:
        self._actors.remove(actor)
        self._start()

    def _give(self, part: _Part) -> None:
        actor = self._idle.pop()
        _, content = part
        actor.part = part
        actor.end = time.monotonic() + self._pool.seconds
        self._awaited[actor.handle.work.remote(content)] = actor

    def _wait(self) -> Any:
        """Returns the first pending result; ends actors whose time is over, and warns where none starts for long."""
        has_warned = False
        while True:
            timeout = self._seconds_to_first_end()
            if timeout is None and not self._busy() and not has_warned:
                timeout = _PATIENCE
            ended, _ = self._ray.wait(list(self._awaited), num_returns=1, timeout=timeout)
            if ended:
                return ended[0]

            if not self._busy():
                gpus = f" and {self._pool.n_gpus:g} GPU" if self._pool.n_gpus else ""
                why = f"no actor could start for {_PATIENCE:.0f} s: no machine of the cluster has 1 CPU{gpus} free"
                warnings.warn(f"{why}. Waiting", stacklevel=2)
                has_warned = True
            self._end_late_actors()

    def _seconds_to_first_end(self) -> float | None:
        """Returns how long the first part may still take; None where no actor that is in time has one."""
        first_end = min(actor.end for actor in self._actors)
        if first_end == math.inf:
            return None
        return max(0.0, first_end - time.monotonic())

    def _end_late_actors(self) -> None:
        now = time.monotonic()
        for actor in self._actors:
            if actor.end <= now:
                actor.is_late = True
                actor.end = math.inf
                self._end(actor)  # its result is then an error of a lost actor

    def _busy(self) -> bool:
        return any(actor.part for actor in self._actors)

    def _note_loss(self, part: _Part | None, error: Exception, *, is_late: bool) -> bytes | None:
        """Notes that an actor is lost, with its part or as it started; returns the result of a part that is given up.

        Raises `error` where too many end as they start.
        """
        if part is None:
            self._n_lost[None] += 1
            if self._n_lost[None] == _ATTEMPTS * self._pool.n_actors:
                raise error  # a lost machine may end all its actors as they start, but not so many
            return None

        number, content = part
        self._n_lost[number] += 1
        if self._n_lost[number] < _ATTEMPTS:
            self._lost.append(part)
            return None
        del self._n_lost[number]
        why = "for want of memory, perhaps"
        if is_late:
            why = f"the limit of {self._pool.seconds:g} s"
        ended = f"{_ATTEMPTS} processes ended while they worked on its part"
        return self._give_up(content, f"{ended}; the last: {why}")

    def _end(self, actor: _Actor) -> None:
        with suppress(Exception):  # it may have ended by itself, or with the cluster
            self._ray.kill(actor.handle)


def _lost_errors(ray: Any) -> tuple[type[Exception], ...]:
    """What Ray raises where the process or the machine that had a part, or its result, is lost."""
    names = (
        "RayActorError",
        "ObjectLostError",
        "OutOfMemoryError",
        "NodeDiedError",
        "WorkerCrashedError",
    )
    return tuple(getattr(ray.exceptions, name) for name in names)


_BUILT_IN = {kind.__name__: kind for kind in (ValueError, ImportError, OSError)}


def _to_json(error: Exception) -> str:
    if isinstance(error, CoEError):
        return json.dumps([type(error).__name__, Exception.__str__(error), error.hint])
    for name, kind in _BUILT_IN.items():
        if isinstance(error, kind):
            return json.dumps([name, str(error), ""])
    message = f"{type(error).__name__}: {error}"
    return json.dumps([StoreError.__name__, message, "Finished parts are kept"])


def _from_json(encoded: str) -> Exception:
    name, message, hint = json.loads(encoded)
    if name in _BUILT_IN:
        return _BUILT_IN[name](message)
    error: Exception = getattr(errors, name)(message, hint=hint)
    return error


def _ray() -> Any:
    try:
        import ray
    except ModuleNotFoundError as error:
        raise ImportError('the engine "ray" needs Ray; pip install "coe-agents[ray]"') from error
    return ray


def _check_listens(address: str) -> None:
    """Asks the address itself, as Ray would ask for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _SECONDS_TO_CONNECT).close()
    except OSError as error:
        hint = 'Start one ("ray start --head" prints its address), or omit the address for one on this machine'
        raise ConfigurationError(
            f"no Ray cluster can be reached at {address}: {error}", hint=hint
        ) from error
