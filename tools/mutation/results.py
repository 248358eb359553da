"""Owns what is known of changes from earlier runs, and for how long that holds."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from tools.mutation.changes import Change

Outcome = Literal["killed", "hung", "survived", "not reached", "error"]


@dataclass(frozen=True)
class Result:
    """What the tests did with a change.

    Attributes:
        outcome: "hung" is a kill, since the tests would not end; "error" says that the change could not be made.
        source: The digest of the function.
        by: The test that failed, or did not end.
        tests: A digest of the files of the tests that reach the change.
        seconds: How long it took.
    """

    outcome: Outcome
    source: str
    by: str | None
    tests: str
    seconds: float

    @property
    def is_kill(self) -> bool:
        """Whether a test noticed."""
        return self.outcome in ("killed", "hung")

    def holds(
        self, change: Change, tests: str, known_tests: Mapping[str, object], *, has_reason: bool
    ) -> bool:
        """Returns whether another run would find the same: a kill while its test exists, else while no test is new.

        With a reason why no test can notice, new tests do not count.
        """
        if self.source != change.source or self.outcome == "error":
            return False
        return self.by in known_tests if self.is_kill else has_reason or self.tests == tests


class Results:
    """The results in a file, one a line, of which the last one of a change counts; each is written at once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found: dict[tuple[str | int, ...], Result] = {}
        for line in path.read_text("utf-8").splitlines() if path.exists() else ():
            row = json.loads(line)
            key = tuple(row.pop("key"))
            self._found[key] = Result(**row)

    def get(self, change: Change) -> Result | None:
        """Returns the last result of a change."""
        return self._found.get(change.key)

    def add(self, change: Change, result: Result) -> None:
        """Keeps a result."""
        self._found[change.key] = result
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"key": change.key, **asdict(result)}) + "\n")
