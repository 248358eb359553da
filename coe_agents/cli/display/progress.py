"""Owns how far a run is: bars on a terminal, plain lines elsewhere."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from coe_agents.redaction import clean

_SECONDS_BETWEEN_LINES = 10.0

Advance = Callable[[str, bool], None]
"""Takes the agent that replied, and whether it failed."""


@contextmanager
def progress(
    totals: Mapping[str, tuple[int, int]],
    *,
    what: str = "replies",
    console: Console | None = None,
    every: float = _SECONDS_BETWEEN_LINES,
) -> Iterator[Advance]:
    """Shows on standard error how many replies each agent has given, the rate, the time left, and the failures.

    Args:
        totals: How many each agent has given already, and how many it will have given.
        what: What they give.
        console: Where to.
        every: Seconds between two lines, where there is no terminal.
    """
    console = console or Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield _lines(totals, what, console, every)
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[failed]}", style="red"),
    )
    with Progress(*columns, console=console) as bars:
        tasks = {
            name: bars.add_task(clean(name), total=total, completed=done, failed="")
            for name, (done, total) in totals.items()
        }
        n_failed = dict.fromkeys(totals, 0)

        def advance(name: str, failed: bool) -> None:
            n_failed[name] += failed
            bars.update(tasks[name], advance=1, failed=f"{n_failed[name]} failed" if n_failed[name] else "")

        yield advance


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:.1f}/s")


def _lines(totals: Mapping[str, tuple[int, int]], what: str, console: Console, every: float) -> Advance:
    done, total = (sum(column) for column in zip(*totals.values(), strict=True))
    start = told = time.monotonic()
    n_new = n_failed = 0

    def advance(name: str, failed: bool) -> None:
        nonlocal told, n_new, n_failed
        n_new, n_failed, now = n_new + 1, n_failed + failed, time.monotonic()
        n_done = done + n_new
        if now - told < every and n_done < total:
            return
        told = now
        rate = n_new / max(now - start, 1e-9)
        left = f"{(total - n_done) / rate:.0f} s left, {n_failed} failed"
        console.print(f"{n_done} of {total} {what}, {rate:.1f} a second, {left}", soft_wrap=True)

    return advance
