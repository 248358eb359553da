"""Owns the one way to the terminal: whatever is printed has no control characters and no key in it.

Commands call these functions instead of `print` and `rich.console.Console`.
"""

import json
import sys
import warnings
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from coe_agents.text import for_terminal, printable, redact, redact_all, secrets_of_environment

if TYPE_CHECKING:
    from rich.console import Console

_HIDDEN: set[str] = set()


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
    """Returns a console that shows control characters in texts as replacement characters."""
    from rich.console import Console, RenderableType
    from rich.segment import Segment

    class CleanConsole(Console):
        def render(self, renderable: RenderableType, options: Any = None) -> Iterable[Segment]:
            for segment in super().render(renderable, options):
                text = segment.text if segment.control else printable(segment.text, keep="\n")
                yield segment if text == segment.text else Segment(text, segment.style)

    return CleanConsole(highlight=False, stderr=stderr)


def show_warnings() -> None:
    """Prints each warning from now on as one line on standard error, without the place in the code."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        print_lines(f"coe-agents: note: {message}", to_stderr=True)

    warnings.showwarning = show
