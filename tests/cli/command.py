"""Runs the command `coe-agents`: in this process, which is fast, or in one of its own."""

import io
import os
import re
import signal
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import PIPE, CompletedProcess, Popen
from unittest.mock import patch

from coe_agents.cli import main

COMMAND = str(Path(sys.executable).with_name("coe-agents"))


class Terminal(io.StringIO):
    def isatty(self):
        return True


def run(*arguments, wide=200, code=0, err=None):
    """Calls the command's `main` in this process; warnings are shown on standard error, as in a process.

    The command must end with the status `code`, unless that is None. `err` is its standard error, such as a `Terminal`.
    """
    out = io.StringIO()
    err = io.StringIO() if err is None else err
    with (
        patch.dict(os.environ, {"COLUMNS": str(wide)}),
        patch.object(sys, "argv", ["coe-agents", *map(str, arguments)]),
        redirect_stdout(out),
        redirect_stderr(err),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("default")
        try:
            main()
            status = 0
        except SystemExit as ended:
            status = ended.code or 0
    shown = "".join(
        warnings.formatwarning(each.message, each.category, each.filename, each.lineno)
        for each in caught
    )
    assert code in (None, status), f"status {status}: {out.getvalue()}{err.getvalue()}{shown}"
    return CompletedProcess(arguments, status, out.getvalue(), err.getvalue() + shown)


def interrupted(*arguments, when):
    """Runs the command in a process of its own and interrupts it once `when(process)` returns; returns its output."""
    command = [sys.executable, COMMAND, *map(str, arguments)]
    with Popen(command, stdout=PIPE, stderr=PIPE, text=True) as process:
        try:
            when(process)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=120)
        finally:
            process.kill()
    assert process.returncode == 130
    assert "Traceback" not in out + err
    return out, err


def assert_names_argument(stderr):
    """Asserts that an error names the argument as the usage line above it does."""
    (usage,) = re.findall(r"^Usage: .*", stderr, re.MULTILINE)
    (named,) = re.findall(r"Invalid value for '([^']*)'", stderr)
    assert f"{{{named}}}" in usage or f"[{named}]" in usage
