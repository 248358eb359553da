"""Owns the one way to the terminal, and what Ctrl-C does; what is printed has no control characters and no key in it.

Commands call these functions instead of `print` and `rich.console.Console`. After Ctrl-C a command ends with status 130
within two seconds, also while threads wait for a server: Python's own handler raises `KeyboardInterrupt` in the main
thread, which then waits for the threads of LangGraph, and they wait for the server.
"""

import json
import os
import re
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from types import FrameType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import typer

from coe_agents.activity import announce
from coe_agents.text import for_terminal, printable, redact, redact_all, secrets_of_environment

if TYPE_CHECKING:
    from rich.console import Console

_HIDDEN: set[str] = set()
PRINTS_JSON: ContextVar[bool] = ContextVar("prints_json", default=False)
"""Whether the command that runs was given --json."""


def hide(secrets: Collection[str]) -> None:
    """Redacts these secrets in all that is printed from now on, as those of the environment are anyway."""
    _HIDDEN.update(secrets)


def clean(text: str, limit: int | None = None) -> str:
    """Returns `text` as it may be printed: on one line of `limit` characters, secrets redacted, nothing to control."""
    return for_terminal(redact(text, _HIDDEN | secrets_of_environment()), limit)


def print_lines(text: str | None, *, to_stderr: bool = False) -> None:
    """Prints a text, whose lines stay apart; nothing for None."""
    if text is None:
        return
    shown = "\n".join(clean(line) if line else "" for line in text.split("\n"))
    print(shown, file=sys.stderr if to_stderr else sys.stdout, flush=True)


def print_json(value: Any) -> None:
    """Prints one JSON object, in ASCII; a ValueError if a number in it is not finite."""
    secrets = _HIDDEN | secrets_of_environment()
    print(json.dumps(redact_all(value, secrets), allow_nan=False).replace("\x7f", "\\u007f"))


def create_console(*, stderr: bool = False) -> "Console":
    """Returns a console that shows control characters in texts as replacement characters.

    Rich fills the lines of tables with spaces, which leave no trace on a terminal; elsewhere they are omitted.
    """
    from rich.console import Console, RenderableType
    from rich.segment import Segment

    class CleanConsole(Console):
        def render(self, renderable: RenderableType, options: Any = None) -> Iterable[Segment]:
            for segment in super().render(renderable, options):
                text = segment.text
                if not segment.control:
                    text = printable(redact(text, _HIDDEN), keep="\n")
                yield segment if text == segment.text else Segment(text, segment.style)

    stream = sys.stderr if stderr else sys.stdout
    file: Any = None
    if not stream.isatty():
        file = SimpleNamespace(
            write=lambda text: stream.write(re.sub(" +\n", "\n", text)), flush=stream.flush
        )
    return CleanConsole(highlight=False, stderr=stderr, file=file)


def shows_progress() -> bool:
    """Returns whether a command shows what it does: on a terminal, unless it prints JSON."""
    return sys.stderr.isatty() and not PRINTS_JSON.get()


def counts_questions() -> bool:
    """Returns whether a command counts what is done: by bars on a terminal, by lines elsewhere; not beside JSON."""
    return not PRINTS_JSON.get()


@contextmanager
def show_work(what: str) -> Iterator[Callable[[str], None]]:
    """Shows what is done until the block ends, if `shows_progress`; yields a function that changes the text."""
    with ExitStack() as shown:
        if shows_progress():
            from coe_agents.experiments.progress import progress  # rich is slow to import

            shown.enter_context(progress({}, is_kept=False))
        yield shown.enter_context(announce(what))


def show_warnings() -> None:
    """Prints each warning from now on as one line on standard error, without the place in the code."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        print_lines(f"coe-agents: note: {message}", to_stderr=True)

    warnings.showwarning = show


INTERRUPTED = 130
_GRACE = 1.0
"""Seconds for an orderly end."""
_SHOW_CURSOR = b"\x1b[?25h"


def clean_up_after_interrupt() -> None:
    """Leaves the end of an interrupted command to the command: it says how to resume, or stops a cluster.

    asyncio ends a run in order only where it finds Python's own handler: it then cancels the task.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def resumable() -> Iterator[None]:
    """Says what is missing and how to resume, if the block is interrupted or cannot write a file.

    What is missing is a note of the exception, such as "3 questions are missing".
    """
    clean_up_after_interrupt()
    try:
        yield
    except (KeyboardInterrupt, OSError) as error:
        parts = list(getattr(error, "__notes__", ()))
        is_interrupted = isinstance(error, KeyboardInterrupt)
        if is_interrupted:
            parts.insert(0, "Interrupted")
        if parts:
            print_lines(f"{'; '.join(parts)}. Rerun the same command to resume.")
        if is_interrupted:
            raise typer.Exit(INTERRUPTED) from None
        raise


@contextmanager
def ending_soon() -> Iterator[None]:
    """Ends the process soon after Ctrl-C in the block, unless `clean_up_after_interrupt` is called."""
    # signals reach the main thread only
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    threading.Thread(target=_end, daemon=True).start()
    raise KeyboardInterrupt


def _end() -> None:
    time.sleep(_GRACE)
    message = b"coe-agents: interrupted\n"
    if sys.stderr is not None and sys.stderr.isatty():
        message = _SHOW_CURSOR + message
    # no buffer is flushed: the main thread may hold its lock
    os.write(2, message)
    os._exit(INTERRUPTED)
