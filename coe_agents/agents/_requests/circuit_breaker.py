"""Owns setting an endpoint aside while it cannot be reached: for how long, and which request tries it again."""

import threading
import time

_FIRST, _LONGEST = 1.0, 60.0
_now = time.monotonic


class Outage:
    """Whether an endpoint is set aside, so that requests go to another one instead.

    It is set aside for a second after a failure, and for twice as long after each further one, a minute at most. Then
    one request tries it, and the others avoid it until that one is answered.
    """

    def __init__(self) -> None:
        self.n_failures = 0
        self._end = -float("inf")
        self._lock = threading.Lock()

    @property
    def is_down(self) -> bool:
        """Whether nothing was received since the last failure."""
        return self.n_failures > 0

    @property
    def is_set_aside(self) -> bool:
        """Whether requests should go to another endpoint."""
        return _now() < self._end

    def note_failure(self) -> None:
        """Notes a failure; simultaneous failures count once."""
        with self._lock:
            if not self.is_set_aside:
                self._extend()

    def note_try(self) -> None:
        """Notes that a request tries it again: it counts as failed until it has answered."""
        with self._lock:
            if self.is_down and not self.is_set_aside:
                self._extend()

    def note_answer(self, n_failures: int) -> None:
        """Notes an answer to a request sent after so many failures; ignored if there was another failure since."""
        with self._lock:
            if n_failures == self.n_failures:
                self.n_failures, self._end = 0, -float("inf")

    def _extend(self) -> None:
        self._end = _now() + min(_LONGEST, _FIRST * 2 ** min(self.n_failures, 16))
        self.n_failures += 1
