"""Owns setting an endpoint aside while it cannot be reached: for how long, and who tries it again."""

import threading
import time

_FIRST, _LONGEST = 1.0, 60.0
_now = time.monotonic


class Outage:
    """Whether an endpoint is set aside, which matters to those who may ask another one instead.

    It is for a second after a failure, and for twice as long after each further one, a minute at most. Then one request
    tries it, and the others stay away until that one has its answer.
    """

    def __init__(self) -> None:
        self.n_failures = 0
        self._end = -float("inf")
        self._lock = threading.Lock()

    @property
    def is_down(self) -> bool:
        """Whether nothing has come since the last failure."""
        return self.n_failures > 0

    @property
    def is_set_aside(self) -> bool:
        """Whether others are to be asked."""
        return _now() < self._end

    def note_failure(self) -> None:
        """Notes a failure; many at once are one."""
        with self._lock:
            if not self.is_set_aside:
                self._extend()

    def note_try(self) -> None:
        """Notes that a request tries it again: it counts as failed until it has answered."""
        with self._lock:
            if self.is_down and not self.is_set_aside:
                self._extend()

    def note_answer(self, n_failures: int) -> None:
        """Notes an answer to what was asked after so many failures; if there was another since, it says nothing."""
        with self._lock:
            if n_failures == self.n_failures:
                self.n_failures, self._end = 0, -float("inf")

    def _extend(self) -> None:
        self._end = _now() + min(_LONGEST, _FIRST * 2 ** min(self.n_failures, 16))
        self.n_failures += 1
