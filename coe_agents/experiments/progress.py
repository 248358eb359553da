"""Owns the signs of life: bars, and what is done now, on a terminal, one line in a notebook, plain lines elsewhere."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.spinner import Spinner

from coe_agents.activity import COUNT, activities
from coe_agents.text import for_screen, quantity

Advance = Callable[[str, bool], None]
"""Takes the name of the agent whose request is done, and whether it failed."""


@contextmanager
def progress(
    totals: Mapping[str, tuple[int, int]],
    *,
    what: tuple[str, str] = ("request", "requests"),
    console: Console | None = None,
    every: float = 10.0,
    is_shown: bool = True,
    is_kept: bool = True,
) -> Iterator[Advance]:
    """Shows on standard error how many requests to each agent are done, the time left, and the failures.

    A terminal shows what is done now, too, also without `totals`: see `coe_agents.activity`.

    Args:
        totals: For each agent how many are done so far and in the end.
        what: What is done, one and several.
        console: Where it is shown.
        every: Seconds between two lines.
        is_shown: Whether anything is.
        is_kept: Whether it stays when the block ends, and the last line is printed before its time.
    """
    console = console or Console(highlight=False, stderr=True)
    if not is_shown:
        yield lambda name, failed: None
        return
    if console.is_jupyter:
        yield _lines(totals, what, _line_of_notebook(), every=0.2)
        return
    if not console.is_terminal:
        yield _lines(
            totals, what, lambda line: console.print(line, soft_wrap=True), every, is_kept=is_kept
        )
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[failed]}", style="red"),
        SpinnerColumn(),
    )
    with _Display(*columns, console=console, transient=not is_kept) as bars:
        tasks = {}
        for name, (done, total) in totals.items():
            tasks[name] = bars.add_task(for_screen(name), total=total, completed=done, failed="")
        n_failed = dict.fromkeys(totals, 0)

        def advance(name: str, failed: bool) -> None:
            n_failed[name] += failed
            shown = f"{n_failed[name]} failed" if n_failed[name] else ""
            bars.update(tasks[name], advance=1, failed=shown)

        yield advance


@contextmanager
def count_questions(n_questions: int, *, is_shown: bool) -> Iterator[None]:
    """Shows how many questions of saved samples were worked on in the block."""
    totals = {"questions": (0, n_questions)}
    with progress(
        totals, what=("question", "questions"), is_shown=is_shown, is_kept=False
    ) as advance:

        def count(n: int) -> None:
            for _ in range(n):
                advance("questions", False)

        before = COUNT.set(count)
        try:
            yield
        finally:
            COUNT.reset(before)


class _Display(Progress):
    """Bars, and below them what is done now."""

    _spinner = Spinner("dots")

    def get_renderables(self) -> Iterable[RenderableType]:
        if self.tasks:
            yield self.make_tasks_table(self.tasks)
        if now := for_screen("; ".join(activities())):
            self._spinner.update(text=now)
            yield self._spinner


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
    is_kept: bool = True,
) -> Advance:
    done, total = (sum(column) for column in zip(*totals.values(), strict=True))
    printed = time.monotonic()
    first = 0.0
    n_new = n_failed = 0

    def advance(name: str, failed: bool) -> None:
        nonlocal printed, first, n_new, n_failed
        now = time.monotonic()
        n_new += 1
        n_failed += failed
        if n_new == 1:
            first = now  # it waited for models that are loaded once: it says nothing of the rest
        n_done = done + n_new
        if now - printed < every and (n_done < total or not is_kept):
            return

        printed = now
        parts = [f"{n_done} of {quantity(total, *what)}"]
        if n_new > 1:
            rate = (n_new - 1) / max(now - first, 1e-9)
            parts += [f"{rate:.1f} a second", f"{(total - n_done) / rate:.0f} s left"]
        show(", ".join([*parts, f"{n_failed} failed"]))

    return advance
