"""Owns the progress of a run: bars on a terminal, one line in a notebook, plain lines elsewhere."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from coe_agents.text import for_terminal, quantity, redact, secrets_of_environment

Advance = Callable[[str, bool], None]
"""Takes the name of the agent that replied, and whether the reply is a failure."""


@contextmanager
def progress(
    totals: Mapping[str, tuple[int, int]],
    *,
    what: tuple[str, str] = ("reply", "replies"),
    console: Console | None = None,
    every: float = 10.0,
    is_shown: bool = True,
) -> Iterator[Advance]:
    """Shows on standard error the number of replies of each agent, the time left, and the failures.

    `totals` holds for each agent the number of replies so far and in the end; `every` are seconds between two lines;
    `what` arrives, one and several.
    """
    console = console or Console(highlight=False, stderr=True)
    if not is_shown:
        yield lambda name, failed: None
        return
    if console.is_jupyter:
        yield _lines(totals, what, _line_of_notebook(), every=0.2)
        return
    if not console.is_terminal:
        yield _lines(totals, what, lambda line: console.print(line, soft_wrap=True), every)
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[failed]}", style="red"),
    )
    with Progress(*columns, console=console) as bars:
        tasks = {}
        for name, (done, total) in totals.items():
            shown_name = for_terminal(redact(name, secrets_of_environment()))
            tasks[name] = bars.add_task(shown_name, total=total, completed=done, failed="")
        n_failed = dict.fromkeys(totals, 0)

        def advance(name: str, failed: bool) -> None:
            n_failed[name] += failed
            shown = f"{n_failed[name]} failed" if n_failed[name] else ""
            bars.update(tasks[name], advance=1, failed=shown)

        yield advance


def _line_of_notebook() -> Callable[[str], None]:
    """Returns what replaces one line of a notebook's output."""
    from IPython import display

    show: Any = display.display
    handle = show({"text/plain": ""}, raw=True, display_id=True)
    return lambda line: handle.update({"text/plain": line}, raw=True)


def _lines(
    totals: Mapping[str, tuple[int, int]],
    what: tuple[str, str],
    show: Callable[[str], None],
    every: float,
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
        show(f"{n_done} of {quantity(total, *what)}, {rate:.1f} a second, {left}")

    return advance
