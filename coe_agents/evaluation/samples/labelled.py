"""Owns labelled cases: one JSON object a line for each answered question that was judged, read as they are appended."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from coe_agents.checks import number, share
from coe_agents.errors import SamplesError
from coe_agents.evaluation.samples.line import parse_line

_CHUNK = 1 << 16
_NEAR = 0.9
"""How alike a misspelt name is to the right one, by `difflib`."""
_FORM = '{"id": "...", "correct": true}, and "seen_probability" where not every answer is judged'


@dataclass(frozen=True, slots=True)
class LabelledCase:
    """One answered question, and whether its answer was right.

    Attributes:
        correct: In [0, 1]; 1 for a right answer.
        seen_probability: The probability with which it was chosen to be judged, in (0, 1].
        time: When it was answered, as the file has it; None where not known.
    """

    id: str
    correct: float
    seen_probability: float = 1.0
    time: str | None = None


def follow_cases(path: str | Path, *, wait: Callable[[], bool]) -> Iterator[LabelledCase]:
    """Yields the labelled cases of a file that grows, in the order of its lines.

    A line holds `id` and `correct`, which are required, and `seen_probability` and `time`; other fields are ignored.
    `wait` is called at the end of the file: it returns True after a while to read on, or False to stop. A last
    line without an end is read only then, as it may be half written. A SamplesError if a line is malformed, an id
    occurs twice, or the file became shorter or was replaced.
    """
    path = Path(path)
    seen: set[str] = set()
    number, rest, has_ended = 0, b"", False
    try:
        with path.open("rb") as file:
            while not has_ended:
                chunk = file.read(_CHUNK)
                if not chunk:
                    goes_on = wait()
                    now = path.stat()
                    if not os.path.samestat(now, os.fstat(file.fileno())):
                        raise SamplesError(
                            f"{path} was replaced while it was read",
                            hint="Append to it only. Join the cases of both files, and start again",
                        )
                    if now.st_size < file.tell():
                        raise SamplesError(
                            f"{path} became shorter while it was read", hint="Append to it only, and start again"
                        )
                    chunk = file.read(_CHUNK)
                    has_ended = not (chunk or goes_on)
                *lines, rest = (rest + (b"\n" if has_ended else chunk)).split(b"\n")
                for raw in lines:
                    number += 1
                    if not raw.strip():
                        continue
                    case = _case(raw, path, number)
                    if case.id in seen:
                        raise SamplesError(
                            f"{path}:{number}: there is a case {case.id[:50]!r} already",
                            hint="Each case counts once; omit the line",
                        )
                    seen.add(case.id)
                    yield case
    except OSError as error:
        raise SamplesError(f"{path} cannot be read: {error}", hint="Check the path") from error


def _case(raw: bytes, path: Path, line: int) -> LabelledCase:
    record, place = parse_line(raw, path, line, form=_FORM, is_strict=True), f"{path}:{line}"
    identifier, time = record.get("id"), record.get("time")
    if not isinstance(identifier, str):
        raise SamplesError(f'{place}: "id" must be a string', hint=f"Write every line as {_FORM}")
    if not (time is None or isinstance(time, str)):
        raise SamplesError(f'{place}: "time" must be a string or null', hint="Write it as in 2026-01-31T12:00:00Z")
    if near := "seen_probability" not in record and get_close_matches("seen_probability", record, n=1, cutoff=_NEAR):
        raise SamplesError(
            f'{place}: the field "{near[0]}" is not read. Did you mean "seen_probability"?',
            hint="Without it the case counts as if every answer were judged",
        )
    correct, omit = record.get("correct"), "Omit it where every answer is judged"
    where = f'{place}: "correct", if it is not true or false,'
    try:
        right = float(correct) if isinstance(correct, bool) else share(correct, where, advice=f"Write {_FORM}")
        probability = number(
            record.get("seen_probability", 1.0), f'{place}: "seen_probability"', above=0, most=1, advice=omit
        )
    except (TypeError, ValueError) as error:
        raise SamplesError(str(error)) from error
    return LabelledCase(identifier, right, probability, time)
