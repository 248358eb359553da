"""Owns the connection to a Ray cluster, and a pool of its actors that works through parts."""

import json
import logging
import os
import socket
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import Any

from coe_agents import errors
from coe_agents.errors import CoEError, ConfigurationError, StoreError

_SECONDS_TO_CONNECT = 10.0
_ATTEMPTS = 3
"""How often a part is tried when the process or the machine that works on it is lost."""

Part = tuple[int, bytes]
"""A part's number, and its input or its result."""
Work = Callable[[bytes], bytes]
"""Computes the result of a part from its input."""


@dataclass(frozen=True, slots=True)
class Pool:
    """The actors that share the work. Each takes one CPU, one part at a time, and `n_gpus`; 0.5 lets two share one."""

    n_actors: int
    n_gpus: float = 0.0


@contextmanager
def cluster(address: str | None = None) -> Iterator[None]:
    """Joins a Ray cluster, or starts one on this machine that only loopback reaches; a cluster joined before is kept.

    Ray prints messages about lost processes and machines; until the context ends, they go to standard error.

    Args:
        address: As Ray has it, such as "10.0.0.1:6379" or "auto"; default: the environment variable RAY_ADDRESS, else
            one is started, without dashboard and usage statistics, and ended with the context.

    Raises:
        ImportError: If Ray is not installed.
        ConfigurationError: If nothing listens at the address.
    """
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    own: dict[str, Any] = {}
    if address == "local":
        own = {"include_dashboard": False}
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
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **own)
        try:
            yield
        finally:
            ray.shutdown()


def n_nodes() -> int:
    """Returns how many machines the cluster has now."""
    return sum(node["Alive"] for node in _ray().nodes())


def work_through(parts: Iterable[Part], create: Callable[[], Work], pool: Pool) -> Iterator[Part]:
    """Yields the result of each part once, in the order in which they finish.

    The inputs wait in Ray's object store, which spills to disk what does not fit. `create` is called once in every
    actor, with its first part. An actor that is killed is replaced, and its part is tried again.

    Raises:
        CoEError: Or ValueError, ImportError or OSError, as the work or `create` raised it.
        StoreError: If these raised something else, the cluster failed for good, or a part was returned twice.
    """
    ray = _ray()
    import ray.data as ray_data

    context = ray_data.DataContext.get_current()
    context.enable_progress_bars = context.print_on_execution_start = False
    context.execution_no_progress_timeout_s = -1  # the agents have deadlines of their own
    for name in ("ray.data", "ray.data.exceptions"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    waiting = [ray.put(_table(number, content)) for number, content in parts]
    if not waiting:
        return
    attempts = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(Attempts)
    done = ray_data.from_arrow_refs(waiting).map_batches(
        Actor,
        fn_constructor_args=(create, attempts.remote()),
        batch_size=1,
        batch_format="pyarrow",
        # one at a time, or a part would wait for another one while an actor is idle
        compute=ray_data.ActorPoolStrategy(size=pool.n_actors, max_tasks_in_flight_per_actor=1),
        num_cpus=1,
        num_gpus=pool.n_gpus or None,
    )
    batches: Iterator[Any] = iter(done.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0))
    seen = set[int]()
    try:
        for table in batches:
            for row in table.to_pylist():
                if row["error"] is not None:
                    raise _from_json(row["error"])
                if row["part"] in seen:
                    raise StoreError(
                        f"part {row['part']} was returned twice", hint="Report it; rerun the same command to resume"
                    )
                seen.add(row["part"])
                yield row["part"], row["content"]
    except ray.exceptions.RayError as error:
        line = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise StoreError(
            f"the cluster failed: {line}", hint="Finished parts are kept; rerun the same command to resume"
        ) from error


class Attempts:
    """Counts how often each part was tried, since Ray would retry for ever one that kills its process."""

    def __init__(self) -> None:
        self._begun = Counter[int]()

    def begin(self, number: int) -> int:
        """Returns which attempt this is."""
        self._begun[number] += 1
        return self._begun[number]


class Actor:
    """One of the pool, as Ray Data calls it."""

    def __init__(self, create: Callable[[], Work], attempts: Any) -> None:
        self._create, self._attempts = create, attempts
        self._work: Work | None = None

    def __call__(self, parts: Any) -> Any:
        (part,) = parts.to_pylist()
        try:
            if _ray().get(self._attempts.begin.remote(part["part"])) > _ATTEMPTS:
                raise StoreError(
                    f"part {part['part']} failed: {_ATTEMPTS} processes ended while they worked on it",
                    hint="See Ray's logs; there may be too little memory. Rerun the same command to resume",
                )
            if self._work is None:
                self._work = self._create()
            content = self._work(part["content"])
        except Exception as error:  # as data, since Ray would wrap its text in its own
            return _table(part["part"], b"", _to_json(error))
        return _table(part["part"], content)


_BUILT_IN = {kind.__name__: kind for kind in (ValueError, ImportError, OSError)}


def _to_json(error: Exception) -> str:
    if isinstance(error, CoEError):
        return json.dumps([type(error).__name__, Exception.__str__(error), error.hint])
    for name, kind in _BUILT_IN.items():
        if isinstance(error, kind):
            return json.dumps([name, str(error), ""])
    return json.dumps([StoreError.__name__, f"{type(error).__name__}: {error}", "Finished parts are kept"])


def _from_json(encoded: str) -> Exception:
    name, message, hint = json.loads(encoded)
    error: Exception = getattr(errors, name)(message, hint=hint) if hasattr(errors, name) else _BUILT_IN[name](message)
    return error


def _table(number: int, content: bytes, error: str | None = None) -> Any:
    import pyarrow

    columns = {"part": [number], "content": [content], "error": [error]}
    types = {"part": pyarrow.int64(), "content": pyarrow.large_binary(), "error": pyarrow.string()}
    return pyarrow.table(columns, pyarrow.schema(types))


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
        raise ConfigurationError(
            f"no Ray cluster can be reached at {address}: {error}",
            hint='Start one ("ray start --head" prints its address), or omit the address for one on this machine',
        ) from error
