"""Owns the signs of life: bars, and what is done now, on a terminal, one line in a notebook, plain lines elsewhere."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from threading import Event, Lock, Thread
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
from rich.text import Text

from coe_agents.activity import COUNT, activities
from coe_agents.checks import flag
from coe_agents.text import for_screen, quantity

Advance = Callable[[str, bool], None]
"""Takes the name of the agent whose request is done, and whether it failed."""


@contextmanager
def progress(
    totals: Mapping[str, tuple[int, int]],
    *,
    what: str = "request",
    console: Console | None = None,
    every: float = 10.0,
    is_shown: bool = True,
    is_kept: bool = True,
) -> Iterator[Advance]:
    """Shows on standard error how many requests to each agent are done, the time left, and the failures.

    A terminal shows what is done now, too, also without `totals`: see `coe_agents.activity`.

    Args:
        totals: For each agent how many are done so far and in the end.
        what: What is done, as a noun for one.
        console: Where it is shown.
        every: Seconds between two lines, also while nothing gets done; 0 for one whenever something is.
        is_shown: Whether anything is.
        is_kept: Whether it stays when the block ends, and the last line is printed before its time.
    """
    console = console or Console(highlight=False, stderr=True)
    if not is_shown:
        yield lambda name, failed: None
        return
    if console.is_jupyter:
        in_notebook = _Lines(totals, what, _line_of_notebook(), every=0.2)
        in_notebook.say()
        yield in_notebook.advance
        return
    if not console.is_terminal:
        lines = _Lines(
            totals, what, lambda line: console.print(line, soft_wrap=True), every, is_kept=is_kept
        )
        with lines.by_the_clock() if every > 0 else nullcontext():
            yield lines.advance
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
    flag(is_shown, '"progress"')
    totals = {"questions": (0, n_questions)}
    with progress(totals, what="question", is_shown=is_shown, is_kept=False) as advance:

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
        now = for_screen("; ".join(activities()))
        if now:
            # as a Text, since brackets in a str are markup
            self._spinner.update(text=Text(now))
            yield self._spinner


def _line_of_notebook() -> Callable[[str], None]:
    """Returns what replaces one line of a notebook's output."""
    from IPython import display

    show: Any = display.display
    handle = show({"text/plain": ""}, raw=True, display_id=True)
    return lambda line: handle.update({"text/plain": line}, raw=True)


class _Lines:
    """How much is done, in lines; `advance` takes what is done, and a timer may show a line, too."""

    def __init__(
        self,
        totals: Mapping[str, tuple[int, int]],
        what: str,
        show: Callable[[str], None],
        every: float,
        *,
        is_kept: bool = True,
    ) -> None:
        self._n_before = sum(n_done for n_done, _ in totals.values())
        self._total = sum(n_all for _, n_all in totals.values())
        self._what = what
        self._show = show
        self._every = every
        self._is_kept = is_kept
        self._shown_at = time.monotonic()
        self._first_at = 0.0
        self._n_new = 0
        self._n_failed = 0
        self._lock = Lock()

    def advance(self, name: str, failed: bool) -> None:
        """Counts a request that is done; shows a line if it is time for one, or if it was the last request."""
        with self._lock:
            self._n_new += 1
            self._n_failed += failed
            if self._n_new == 1:
                # it waited for models that are loaded once: it says nothing of the rest
                self._first_at = time.monotonic()
            is_last = self._n_before + self._n_new == self._total
            if self._left() <= 0 or (is_last and self._is_kept):
                self.say()

    @contextmanager
    def by_the_clock(self) -> Iterator[None]:
        """Shows a line whenever it is time for one until the block ends, also while nothing gets done."""
        has_ended = Event()

        def watch() -> None:
            while not has_ended.wait(self._left()):
                with self._lock:
                    # `advance` may have shown one meanwhile
                    if self._left() <= 0:
                        self.say()

        watching = Thread(target=watch, name="coe-agents progress", daemon=True)
        watching.start()
        try:
            yield
        finally:
            has_ended.set()
            watching.join()

    def _left(self) -> float:
        """Returns in how many seconds it is time for the next line."""
        return self._shown_at + self._every - time.monotonic()

    def say(self) -> None:
        """Shows a line now."""
        self._shown_at = time.monotonic()
        n_done = self._n_before + self._n_new
        parts = [f"{n_done} of {quantity(self._total, self._what)}"]
        if self._n_new > 1:
            rate = (self._n_new - 1) / max(self._shown_at - self._first_at, 1e-9)
            n_left = self._total - n_done
            parts += [f"{rate:.1f} a second", f"{n_left / rate:.0f} s left"]
        self._show(", ".join([*parts, f"{self._n_failed} failed"]))
