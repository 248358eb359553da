"""Owns that a vouched action runs once, and as a whole: none of its calls runs before all are at their tools."""

import hashlib
import logging
import math
import os
import sqlite3
import threading
import uuid
import weakref
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver, PersistentDict
from langgraph.constants import CONFIG_KEY_CHECKPOINTER
from langgraph.store.base import BaseStore

from coe_agents._steps import Call, Steps, Wait
from coe_agents.middleware.marks import SECRET, configurable, is_mark, make_mark, thread_id, to_text

logger = logging.getLogger(__name__)

SECONDS_TO_GATHER = 10.0
"""So long a call waits at its tool for the other calls of its action."""
SPENT = "it has been started before, and runs once only"
INCOMPLETE = "another call of the same message does not run"
UNVERIFIED = (
    "it counts as started, since what the store holds about it does not verify: somebody changed it, or it was written "
    f"under another {SECRET}"
)

_NAMESPACE = ("coe_gate", "started")
_MEMORIES = weakref.WeakKeyDictionary[BaseCheckpointSaver[Any], tuple[object, str]]()
"""What each saver keeps its threads in, of those that keep them in this process, and a name for it."""
_NAMING = threading.Lock()
_INTERRUPTED: Any = object()
"""What stands for the invocation of a tool that interrupted the run, and is to be called again."""
_ENDED: Any = object()
"""What stands for an invocation that nothing can be a retry of: it is over, or of another process."""


@dataclass(frozen=True, slots=True)
class VouchedAction:
    """The calls that were vouched for together, by their ids; `key` is from `new_action`.

    `forms` are those in which the call that asks was compared; () if its arguments were not parsed for that.
    """

    key: str
    ids: frozenset[str]
    forms: Collection[str] = ()


@dataclass(slots=True)
class _Started:
    """What this process knows of an action.

    Attributes:
        invocations: A weak reference to the invocation of each call's tool, `_INTERRUPTED` or `_ENDED`.
        n_calls: How often the tool of each call was called in that invocation, by its id.
        waiting: The calls that are at their tools.
        why_not: Why none of its calls may run; None while they may.
        runs: Whether its calls may run now.
    """

    invocations: dict[str, Any] = field(default_factory=dict)
    n_calls: Counter[str] = field(default_factory=Counter)
    waiting: list[Future[str | None]] = field(default_factory=list)
    why_not: str | None = None
    runs: bool = False


def new_action(gate: str, message_id: str | None, call_id: str | None = None) -> str:
    """Returns the key of an action that is decided on: equal for equal ones of one thread, also in another process.

    `call_id` is that of the call where a single one is the action.
    """
    if not has_checkpointer():
        return uuid.uuid4().hex  # no thread is kept: nothing of this run can run again
    saver = configurable()[CONFIG_KEY_CHECKPOINTER]
    identity = to_text([gate, thread_id(), _name_memory(saver), message_id, call_id])
    return hashlib.sha256(identity.encode(errors="replace")).hexdigest()


def has_checkpointer() -> bool:
    """Returns whether the present run is kept, so that it can wait for a person."""
    return configurable().get(CONFIG_KEY_CHECKPOINTER) is not None


def _name_memory(saver: BaseCheckpointSaver[Any]) -> str | None:
    """Returns a name for what a saver keeps its threads in, if that is in this process's memory.

    Of two such savers, each has a thread "1" of its own. It is None for a file or a database: another saver, or another
    process, may have opened the same one, and must find the same key.
    """
    memory = _memory_of(saver)
    if memory is None:
        return None
    with _NAMING:
        name = uuid.uuid4().hex
        for known, known_name in _MEMORIES.values():
            if known is memory:
                name = known_name
        return _MEMORIES.setdefault(saver, (memory, name))[1]


def _memory_of(saver: BaseCheckpointSaver[Any]) -> object | None:
    if isinstance(saver, InMemorySaver):
        if isinstance(saver.storage, PersistentDict):
            return None
        return saver.storage

    connection = getattr(saver, "conn", None)
    if isinstance(connection, sqlite3.Connection):
        for _, _, path in connection.execute("PRAGMA database_list"):
            if path:
                return None
        return connection

    for part in vars(saver).values():
        if isinstance(part, BaseCheckpointSaver):
            return _memory_of(part)
    return None


def n_places(config: RunnableConfig, *, is_async: bool) -> float:
    """Returns how many calls of a run can be at their tools at the same time.

    In the asynchronous form, threads do not bound them.
    """
    places = config.get("max_concurrency")
    if places:
        return places
    if is_async:
        return math.inf
    return min(32, (os.cpu_count() or 1) + 4)  # as many threads as LangGraph's pool has


class Register:
    """The actions that were started, in this process and in the store of the runs.

    A store has no operation that both looks and writes: of two processes that start one action at the same moment, both
    may succeed. In one process only the first does.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._started = dict[str, _Started]()

    def start(
        self,
        action: VouchedAction,
        call_id: str,
        invocation: object | None,
        store: BaseStore | None,
        *,
        calls_tool: bool = True,
    ) -> Steps[str | None]:
        """Returns why a call may not run, or None if it may.

        It waits until all calls of the action are at their tools, for `SECONDS_TO_GATHER` at most. `invocation` is the
        same object in all retries inside one invocation of a tool, and in nothing else; None where nothing is retried.
        `calls_tool` says whether the tool is called next: where other middleware brings it, the call is admitted before
        it is there, too.
        """
        try:
            if store is not None and action.key not in self._started:
                kept = yield Call(store.get, store.aget, (_NAMESPACE, action.key))
                if kept is not None:
                    self._restore(action, kept.value)
            gathered, is_last = self._arrive(action, call_id, invocation, calls_tool=calls_tool)
            if is_last:
                yield from self._keep(action, store)
                self._decide(action.key)
            try:
                yield Wait(gathered, SECONDS_TO_GATHER)
            except TimeoutError:  # or the others came meanwhile, and run
                self.close(action.key)
            return gathered.result()
        except GeneratorExit:  # the call was cancelled: it will not run, nor may the others
            self.close(action.key)
            raise
        except Exception as error:  # whatever a store raises
            logger.warning(
                "a gated call is refused: the store failed with %s", type(error).__name__
            )
            self.close(action.key)
            return "the store of the runs failed"

    def interrupt(
        self, action: VouchedAction, call_id: str, store: BaseStore | None
    ) -> Steps[None]:
        """Notes that a tool interrupted the run: when that is resumed, LangGraph calls the tool again.

        Where a retry interrupts it, the tool may have had its effect before: then it is not called again.
        """
        with self._lock:
            started = self._started[action.key]
            if started.n_calls[call_id] > 1:
                return
            started.invocations[call_id] = _INTERRUPTED
        yield from self._keep(action, store)

    def close(self, key: str) -> None:
        """Lets no call of an action run any more, unless they run already."""
        with self._lock:
            started = self._started.setdefault(key, _Started())
            if not started.runs:
                started.why_not = INCOMPLETE
        self._decide(key)

    def _arrive(
        self, action: VouchedAction, call_id: str, invocation: object | None, *, calls_tool: bool
    ) -> tuple[Future[str | None], bool]:
        """Returns what says why a call may not run, None if it may, and whether it is the last call of its action."""
        gathered = Future[str | None]()
        with self._lock:
            started = self._started.setdefault(action.key, _Started())
            former = started.invocations.get(call_id)
            is_open = former is _INTERRUPTED or (former is None and not started.runs)
            if started.why_not is None and is_open:
                started.invocations[call_id] = _ENDED
                if invocation is not None:
                    started.invocations[call_id] = weakref.ref(invocation)
                started.n_calls[call_id] = int(calls_tool)
                started.waiting.append(gathered)
                gathered.set_running_or_notify_cancel()  # who stops waiting must not cancel it
                return gathered, action.ids == started.invocations.keys()

            running = former() if isinstance(former, weakref.ref) else None
            if started.runs and running is not None and running is invocation:
                started.n_calls[call_id] += calls_tool
                gathered.set_result(None)
            else:
                gathered.set_result(started.why_not or SPENT)
            return gathered, False

    def _decide(self, key: str) -> None:
        """Lets the calls that wait run, unless their action is refused."""
        with self._lock:
            started = self._started[key]
            started.runs = started.why_not is None
            for one in started.waiting:
                one.set_result(started.why_not)
            started.waiting.clear()

    def _keep(self, action: VouchedAction, store: BaseStore | None) -> Steps[None]:
        if store is None:
            return
        interrupted = []
        with self._lock:
            for id_, invocation in self._started[action.key].invocations.items():
                if invocation is _INTERRUPTED:
                    interrupted.append(id_)
        record = self._record(action, sorted(interrupted))
        # in no index, which may ask a model about it, and for ever: once it expires, the call may run again
        yield Call(
            store.put, store.aput, (_NAMESPACE, action.key, record), {"index": False, "ttl": None}
        )

    def _record(self, action: VouchedAction, interrupted: Sequence[str]) -> dict[str, Any]:
        """Returns what the store holds of an action that was started, under a mark: whoever writes there has none."""
        mark = make_mark("started", "", None, (), [action.key, sorted(action.ids), interrupted])
        return {"interrupted": interrupted, "mark": mark}

    def _restore(self, action: VouchedAction, record: Mapping[str, Any]) -> None:
        """Takes over what another process, or this one before it ended, has started."""
        interrupted: Any = record.get("interrupted")
        started = _Started(runs=True)
        started.invocations = dict.fromkeys(action.ids, _ENDED)
        if is_mark(record.get("mark"), self._record(action, interrupted)["mark"]):
            for id_ in action.ids:
                if id_ in interrupted:
                    started.invocations[id_] = _INTERRUPTED
        else:
            logger.warning("a gated call is refused: %s", UNVERIFIED)
            started.why_not = UNVERIFIED
        with self._lock:
            self._started.setdefault(action.key, started)


REGISTER = Register()
