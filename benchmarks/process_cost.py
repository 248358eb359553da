"""Owns what a process of its own costs: CPU seconds of all its threads, and its peak memory."""

import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple


class ProcessCost(NamedTuple):
    """What a process took, and what it printed."""

    seconds: float
    megabytes: float
    printed: str


def cost_of(command: Sequence[str | Path], **options: Any) -> ProcessCost:
    """Runs a command to its end; the options are those of `subprocess.Popen`.

    The peak includes what the process inherits before it becomes the command, so a small process should call this.
    """
    with tempfile.TemporaryFile("w+") as out:
        child = subprocess.Popen(command, stdout=out, **options)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        printed = out.read()
    if child.returncode:
        raise SystemExit(f"{' '.join(map(str, command))[:100]} ended with {child.returncode}")
    return ProcessCost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e6, printed)
