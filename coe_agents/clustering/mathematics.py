r"""Owns the clusterer of mathematics: answers are equal if they have the same value, such as `\frac{1}{2}` and 0.5."""

import atexit
import functools
import importlib.util
import json
import os
import re
import subprocess
import sys
import threading
from fractions import Fraction
from pathlib import Path
from typing import Any

from coe_agents.clustering.latex import SIGNS
from coe_agents.clustering.normalized import (
    NormalizedMatch,
    is_quantity,
    normalize_answer,
    normalize_characters,
    write_operators,
)
from coe_agents.errors import ClusteringError


class MathematicsMatch(NormalizedMatch):
    r"""A `Clusterer` without a model: two answers share a cluster if they have the same mathematical value.

    Each answer is read once, to a canonical value, so that equality is symmetric and transitive and does not depend on
    order. Numbers, fractions and percentages are compared exactly; expressions, equations, intervals, sets and matrices
    as Hugging Face's `math-verify` reads them; "x = 5" has the value 5. A number with another unit than percent is
    equal only with the same unit. What is no mathematics, or is not read in three seconds of CPU time, is compared as
    `NormalizedMatch` does. The questions are ignored.

    `math-verify` runs in a process of its own, which is started when it is first needed and ended if it takes too
    long: its own limits work in the main thread only.

    Raises:
        ImportError: If `math-verify` is not installed.

    Example:
        >>> answers = ["1/2", "0.5", r"\frac{2}{4}", "50%", "one third"]
        >>> MathematicsMatch().cluster([answers], ["What is the probability?"])
        [[0, 0, 0, 0, 1]]
    """

    def __init__(self) -> None:
        if importlib.util.find_spec("math_verify") is None:
            raise ImportError("mathematics needs math-verify; pip install 'coe-agents[math]'")

    def key(self, text: str) -> str:
        """Returns the canonical value after "=", or the normalised answer of what has none."""
        normal = normalize_answer(text)
        number = _NUMBER.fullmatch(normal)
        if number and not _ZERO_BELOW.search(normal):
            value = Fraction(number["number"])
            if number["percent"]:
                value /= 100
            return f"={value}" if value.denominator == 1 else f"={float(value):.15g}"
        if is_quantity(normal) or not _is_mathematics(text):
            return normal
        canonical = _value_of(text)
        return normal if canonical is None else f"={canonical}"


_NUMBER = re.compile(r"(?P<number>-?(?:0|[1-9]\d{0,99})(?:\.\d{1,99}|/\d{1,99})?)(?P<percent>%?)")
_ZERO_BELOW = re.compile(r"/0*\Z|/0*%")
_LONGEST = 300
_COMMAND = re.compile(
    r"\\(?:begin|end)\{[a-z]?matrix\}|\\[a-zA-Z]+"
    r"|(?<![a-zA-Z])(?:(?:arc)?(?:sin|cos|tan)|log|ln|exp|sqrt|pi|and|or)(?![a-zA-Z])"
)
# a run of letters is a word; a number with a zero before it, a letter before a digit, or two points is a name;
# a base, and a power of a power without brackets, are not read as they are meant
_NO_MATHEMATICS = re.compile(
    r"[^\W\d_]{3}|\.\d*\.|\d[_₀-₉]|\^(?:\w+|\{\w+\})\^"
    r"|(?<![\d.])0\d|\A\d+(?:-\d+)+\Z|\d/\d+/\d|(?<![\\a-z])[a-zA-Z]\d|[:'\"#@&]|\*\*|[^\W\d_] [^\W\d_]"
)
_OPERATOR = re.compile(r"[\d\\=<>≤≥≠+*/^√π∞²³]|\bpi\b")
_COMMANDS = {sign: f"\\{name} " for name, sign in SIGNS.items() if sign.strip()}
# "1 1/2" is a sum, and "2/3 π" no part of 3π
_FRACTION = re.compile(r"(?<![\w./^)])(?:(\d{1,99})\s)?(\d{1,99})/(\d{1,99})(?![\w./(^!√\\])")
_ROOT = re.compile(r"√\s*(\d+|[a-z]|\([^()]*\))")
_POWER = re.compile(r"\^\s*(?:\((-?\d+)\)|(-?\d+))")
_FUNCTION = re.compile(r"(?<![\\a-z])((?:arc)?(?:sin|cos|tan)|log|ln|exp|pi)\b")
_LIST = re.compile(r",?\s*(?:\\text\{\s*(?:and|or)\s*\}|\b(?:and|or)\b)")


def _is_mathematics(text: str) -> bool:
    if len(text) > _LONGEST or not _OPERATOR.search(text):
        return False
    return not _NO_MATHEMATICS.search(_COMMAND.sub(" ", text))


def _to_latex(text: str) -> str:
    text = write_operators(normalize_characters(text)).replace("$", " ")
    text = _FRACTION.sub(r"(\1+\\frac{\2}{\3})", text)
    text = _ROOT.sub(r"\\sqrt{\1}", text)
    for sign, command in _COMMANDS.items():
        text = text.replace(sign, command)
    text = _FUNCTION.sub(r"\\\1", _LIST.sub(",", text))
    return _POWER.sub(r"^{\1\2}", text).strip().rstrip(".")


@functools.lru_cache(maxsize=2**16)
def _value_of(text: str) -> str | None:
    """Returns the canonical value of an answer; None if it has none, or takes too long."""
    with _ONE_AT_A_TIME:
        process: Any = _PROCESSES.get(os.getpid())
        if process is None or process.poll() is not None:
            process = subprocess.Popen(
                [sys.executable, "-P", str(_PROGRAM)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            _PROCESSES[os.getpid()] = process
        # where a process cannot limit its own CPU time, and for a machine that stands still
        watchdog = threading.Timer(_MOST_SECONDS, process.kill)
        watchdog.start()
        line = ""
        try:
            process.stdin.write(json.dumps(_to_latex(text)) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            pass  # it has ended already, and its status says why
        finally:
            watchdog.cancel()
        if not line:
            process.communicate()
        if not line and process.returncode > 0:
            raise ClusteringError(
                f"the process that reads mathematics ended with status {process.returncode}",
                hint=f"python {_PROGRAM.name} says why; pip install 'coe-agents[math]'",
            )
        value: str | None = json.loads(line or "null")
        return value


@atexit.register
def _end() -> None:
    process = _PROCESSES.pop(os.getpid(), None)
    if process is not None:
        process.kill()
        process.communicate()


_PROGRAM = Path(__file__).with_name("mathematics_worker.py")
_MOST_SECONDS = 60
_ONE_AT_A_TIME = threading.Lock()
_PROCESSES: dict[int, Any] = {}
"""The process that runs `math-verify`, for each process of ours: a fork must not share it."""
