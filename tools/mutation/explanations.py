"""Owns the reasons why a change may survive, which people write down in `explained.toml`."""

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.mutation.changes import Change

FILE = Path(__file__).with_name("explained.toml")
ANY = "…"
"""Stands for any text in the pattern of a change."""


@dataclass(frozen=True)
class Explanation:
    """Why some changes of a function may survive.

    Attributes:
        module: The module of the function.
        function: Its qualified name.
        pattern: "before -> after", or "kind: before -> after".
        why: The reason, after its sort: "equal", "cost" or "wording".
    """

    module: str
    function: str
    pattern: str
    why: str

    def matches(self, change: Change) -> bool:
        """Returns whether it is about the change."""
        if (self.module, self.function) != (change.module, change.function):
            return False
        pattern = re.compile(".*".join(map(re.escape, self.pattern.split(ANY))), re.DOTALL)
        words = f"{change.before} -> {change.after}"
        return any(map(pattern.fullmatch, (words, f"{change.kind}: {words}")))


class Explanations:
    """All reasons, and the functions that word something, which are not changed."""

    def __init__(self, path: Path = FILE) -> None:
        rows = tomllib.loads(path.read_text("utf-8")) if path.exists() else {}
        self.wording: dict[str, dict[str, str]] = rows.pop("wording", {})
        self._of: defaultdict[tuple[str, str], list[Explanation]] = defaultdict(list)
        for module, functions in rows.items():
            for function, reasons in functions.items():
                self._of[module, function] += [
                    Explanation(module, function, *reason) for reason in reasons.items()
                ]

    def __iter__(self) -> Iterator[Explanation]:
        for reasons in self._of.values():
            yield from reasons

    def is_wording(self, change: Change) -> bool:
        """Returns whether the function of a change words something, or one around it does."""
        return any(
            change.function == name or change.function.startswith(f"{name}.")
            for name in self.wording.get(change.module, {})
        )

    def find(self, change: Change) -> Explanation | None:
        """Returns the reason why a change may survive."""
        return next(
            (each for each in self._of[change.module, change.function] if each.matches(change)),
            None,
        )
