"""Owns what Ctrl-C does: the command ends with status 130 within two seconds, also while threads wait for a server.

Python's own handler raises `KeyboardInterrupt` in the main thread, which then waits for the threads of LangGraph, and
they wait for the server.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import typer

from coe_agents.cli.terminal import print_lines

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
def resumable(missing: Callable[[], str]) -> Iterator[None]:
    """Says what is missing and how to resume, if the block is interrupted or cannot write a file.

    `missing` returns such as "3 questions are".
    """
    clean_up_after_interrupt()
    try:
        yield
    except KeyboardInterrupt:
        print_lines(f"Interrupted; {missing()} missing. Rerun the same command to resume.")
        raise typer.Exit(INTERRUPTED) from None
    except OSError:
        print_lines(f"{missing()} missing. Rerun the same command to resume.")
        raise


@contextmanager
def ending_soon() -> Iterator[None]:
    """Ends the process soon after Ctrl-C in the block, unless `clean_up_after_interrupt` is called."""
    if threading.current_thread() is not threading.main_thread():  # signals reach the main thread only
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
    # no buffer is flushed: the main thread may hold its lock
    os.write(2, (_SHOW_CURSOR if sys.stderr is not None and sys.stderr.isatty() else b"") + message)
    os._exit(INTERRUPTED)
