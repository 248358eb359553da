"""Owns what Ctrl-C does: the command ends with status 130 within two seconds, also while threads wait for a server.

Python's own handler raises `KeyboardInterrupt` in the main thread, which then waits for the threads of LangGraph, and
they wait for the server.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

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
