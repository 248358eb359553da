"""Owns the assertions of the contracts; unlike `assert` it holds under `python -O` and outside test files."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")

ODD_TEXTS = (
    "",
    " \t\n",
    "?!",
    "word " * 2000,
    "naïve 東京 🙂 é",
    'a "quoted" <answer>text</answer>',
    "null\x00byte",
)
"""Texts that models do say: nothing, a lot, other scripts, markup, control characters."""


def expect(holds: object, message: str) -> None:
    """Raises `AssertionError` with the message unless `holds`."""
    if not holds:
        raise AssertionError(message)


def from_threads(call: Callable[[], Result], *, n_threads: int = 4) -> list[Result]:
    """Returns what the call gives in several threads at once."""
    with ThreadPoolExecutor(n_threads) as pool:
        return [future.result() for future in [pool.submit(call) for _ in range(n_threads)]]
