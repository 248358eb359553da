"""Owns a caller's connection: how large the head of a request may be, and for how long a caller may do nothing.

uvicorn itself waits without end for the rest of a head, and for a caller who does not read; with httptools it also
takes a head of any size. All of this comes before the key is checked.
"""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_HEAD_BYTES = 65_536
"""The size of the request line with all headers; larger ones get 400."""
LONGEST_HEAD = 30.0
"""Seconds in which a head must have arrived, from its first byte on, or from the connection's beginning."""
LONGEST_READ = 30.0
"""Seconds in which a caller must take what fills the buffers; after that the question is dropped."""


class Connection(H11Protocol):
    """Speaks HTTP with one caller, and drops the connection of one who neither sends nor reads."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._awaits_head: asyncio.TimerHandle | None = None
        self._awaits_reading: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch_head()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._awaits_reading = self.loop.call_later(LONGEST_READ, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        _cancel(self._awaits_reading)

    def connection_lost(self, exc: Exception | None) -> None:
        _cancel(self._awaits_head)
        _cancel(self._awaits_reading)
        super().connection_lost(exc)

    def _watch_head(self) -> None:
        # between two requests uvicorn's own time limit is running, until the first byte of the next head
        is_due = self.conn.their_state is h11.IDLE and self.timeout_keep_alive_task is None
        if not is_due:
            _cancel(self._awaits_head)
            self._awaits_head = None
        elif self._awaits_head is None:
            self._awaits_head = self.loop.call_later(LONGEST_HEAD, self.transport.abort)


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
