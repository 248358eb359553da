"""Owns the time limits of a request, and their check."""

import time

from coe_agents.checks import number
from coe_agents.errors import AgentTimeoutError


def check_limits(
    owner: str, timeout: float | None, request_timeout: float | None, retries: int, max_concurrency: int | None
) -> None:
    """Refuses limits that cannot work, by a TypeError or ValueError; `owner` is whose they are."""
    for option, seconds in (("timeout", timeout), ("request_timeout", request_timeout)):
        if seconds is not None:
            number(seconds, f'"{option}" of {owner} in seconds', above=0, advice="None is no limit")
    for option, count, least, remedy in (
        ("retries", retries, 0, "0 never asks again"),
        ("max_concurrency", 1 if max_concurrency is None else max_concurrency, 1, "1 asks one by one"),
    ):
        number(count, f'"{option}" of {owner}', least=least, may_be_infinite=True, advice=remedy)


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

    def allows(self, seconds: float) -> bool:
        """Returns whether time is left after so many seconds."""
        return self._end is None or seconds < self._end - time.monotonic()
