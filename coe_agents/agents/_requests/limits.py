"""Owns the time limit of a request."""

import time

from coe_agents.errors import AgentTimeoutError


class Deadline:
    """A point in time, `seconds` from now; never for None. `setting` is what a user would raise to have more."""

    def __init__(self, seconds: float | None, *, setting: str = "`timeout` of the agent") -> None:
        self.seconds = seconds
        self.setting = setting
        self._end = None if seconds is None else time.monotonic() + seconds

    def seconds_left(self, most: float | None = None) -> float | None:
        """Returns the seconds left, `most` at most; None for no limit.

        Raises:
            AgentTimeoutError: If none are left.
        """
        if self._end is None:
            return most
        left = self._end - time.monotonic()
        if left <= 0:
            raise AgentTimeoutError(
                f"no answer within {self.seconds:g} s", hint=f"Raise {self.setting}", retryable=False
            )
        return left if most is None else min(left, most)
