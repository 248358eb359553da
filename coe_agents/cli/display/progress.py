"""Owns the progress of a run: bars on a terminal, plain lines elsewhere."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from coe_agents.cli.terminal import clean, create_console
from coe_agents.text import quantity

Advance = Callable[[str, bool], None]
"""Takes the name of the agent that replied, and whether the reply is a failure."""


@contextmanager
def progress(
    totals: Mapping[str, tuple[int, int]],
    *,
    what: tuple[str, str] = ("reply", "replies"),
    console: Console | None = None,
    every: float = 10.0,
) -> Iterator[Advance]:
    """Shows on standard error the number of replies of each agent, the time left, and the failures.

    `totals` holds for each agent the number of replies so far and in the end; `every` are seconds between two lines;
    `what` arrives, one and several.
    """
    console = console or create_console(stderr=True)
    if not console.is_terminal:
        yield _lines(totals, what, console, every)
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
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
            shown = f"{n_failed[name]} failed" if n_failed[name] else ""
            bars.update(tasks[name], advance=1, failed=shown)

        yield advance


def _lines(
    totals: Mapping[str, tuple[int, int]], what: tuple[str, str], console: Console, every: float
) -> Advance:
    done, total = (sum(column) for column in zip(*totals.values(), strict=True))
    start = printed = time.monotonic()
    n_new = n_failed = 0

    def advance(name: str, failed: bool) -> None:
        nonlocal printed, n_new, n_failed
        n_new, n_failed, now = n_new + 1, n_failed + failed, time.monotonic()
        n_done = done + n_new
        if now - printed < every and n_done < total:
            return
        printed = now
        rate = n_new / max(now - start, 1e-9)
        left = f"{(total - n_done) / rate:.0f} s left, {n_failed} failed"
        console.print(
            f"{n_done} of {quantity(total, *what)}, {rate:.1f} a second, {left}", soft_wrap=True
        )

    return advance
