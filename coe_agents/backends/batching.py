"""Owns the batching of requests: those that arrive while a model is busy, or within milliseconds, share its next batch.

The continuous batching of transformers (5.23) does not serve here: it draws all requests from one stream, so that no
seed gives the same responses again, and on a CPU twenty short requests to a small model took it 50 times as long.
"""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar
from weakref import WeakValueDictionary

import torch

from coe_agents.backends.generation import DrawnToken, DrawSettings, Row, draw_rows
from coe_agents.backends.model_loading import Loaded

Result = TypeVar("Result")

_PAUSE = 0.002
"""Seconds without a new request after which a batch starts."""
_LONGEST_PAUSE = 0.01


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request's prompt as tokens, what to draw for it, and how; equal settings may share a batch."""

    prompt: Sequence[int]
    seeds: Sequence[int]
    settings: DrawSettings

    def may_join(self, batch: "Sequence[Prepared]") -> bool:
        """Whether there is room for it, and no prompt is so much longer that another would be mostly padding."""
        together = [self, *batch]
        lengths = [len(each.prompt) for each in together]
        are_alike = max(lengths) <= 2 * min(lengths) + 32
        if self.settings != batch[0].settings or not are_alike:
            return False
        return sum(len(each.seeds) for each in together) <= self.settings.max_batch


@dataclass(eq=False, slots=True)
class Request(Generic[Result]):
    """What one caller asks of a model.

    Attributes:
        prepare: Called while nothing else uses model and tokenizer; its error reaches this request alone.
        finish: Makes the result of the tokens drawn for each seed, in the same way.
        watch: Called in the same way after each token, with all that were drawn so far for one of the seeds.
    """

    prepare: Callable[[], Prepared]
    finish: Callable[[Prepared, Sequence[Sequence[DrawnToken]]], Result]
    watch: Callable[[Sequence[DrawnToken]], None] = lambda drawn: None
    future: Future[Result] = field(default_factory=Future)
    is_given_up: bool = False

    def is_wanted(self) -> bool:
        """Whether its caller still waits."""
        return not self.is_given_up


_Waiting: TypeAlias = tuple[Request[Any], Prepared]


class Batches:
    """The requests to one model, in the order in which they arrived.

    The oldest request is always in the next batch, with all that may join it, so that no request waits longer than
    those before it take. One thread serves them, and ends with this object.
    """

    def __init__(self, loaded: Loaded) -> None:
        self.loaded = loaded
        self._incoming: queue.SimpleQueue[Request[Any]] = queue.SimpleQueue()
        self._waiting: list[_Waiting] = []  # the thread's own
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="coe-agents-batches")

    def put(self, request: Request[Any]) -> None:
        """Takes a request, and returns at once."""
        self._incoming.put(request)
        self._thread.submit(self._serve)  # once for each request, so that none can be left

    def _serve(self) -> None:
        with self.loaded.lock, torch.inference_mode():
            end = time.monotonic() + _LONGEST_PAUSE
            while self._receive() and time.monotonic() < end:
                time.sleep(_PAUSE)
            if batch := self._next_batch():
                self._answer(batch)

    def _receive(self) -> bool:
        n_received = 0
        while not self._incoming.empty():
            request = self._incoming.get()
            n_received += 1
            if not request.future.set_running_or_notify_cancel():
                continue
            try:
                self._waiting.append((request, request.prepare()))
            except BaseException as error:
                request.future.set_exception(error)
        return n_received > 0

    def _next_batch(self) -> list[_Waiting]:
        batch = list[_Waiting]()
        later = list[_Waiting]()
        for request, prepared in self._waiting:
            if not request.is_wanted():
                continue
            if not batch or prepared.may_join([other for _, other in batch]):
                batch.append((request, prepared))
            else:
                later.append((request, prepared))
        self._waiting = later
        return batch

    def _answer(self, batch: Sequence[_Waiting]) -> None:
        prompts = list[Sequence[int]]()
        rows = list[Row]()
        for place, (request, prepared) in enumerate(batch):
            prompts.append(prepared.prompt)
            for seed in prepared.seeds:
                rows.append(Row(place, seed, request.is_wanted, request.watch))
        try:
            drawn = draw_rows(self.loaded, prompts, rows, batch[0][1].settings)
        except BaseException as error:
            if len(batch) == 1:
                batch[0][0].future.set_exception(error)
                return
            drawn = []
        if not drawn:  # one by one, so that the error reaches only the request that caused it
            for waiting in batch:
                self._answer([waiting])
            return
        start = 0
        for request, prepared in batch:
            stop = start + len(prepared.seeds)
            try:
                request.future.set_result(request.finish(prepared, drawn[start:stop]))
            except BaseException as error:
                request.future.set_exception(error)
            start = stop


_BATCHES: WeakValueDictionary[Loaded, Batches] = WeakValueDictionary()
_LOCK = threading.Lock()


def batches_of(loaded: Loaded) -> Batches:
    """Returns the batches of a model, the same for all that share it."""
    with _LOCK:
        return _BATCHES.setdefault(loaded, Batches(loaded))
