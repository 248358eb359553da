"""Owns what waits for a person in an agent's state: checkpoints hold it, and no stream of the state shows it."""

from collections.abc import Mapping, Sequence
from typing import Any

from langgraph.channels import LastValue


class Sealed(dict[str, Any]):
    """A dict that is empty to all that writes it as text or JSON, as streams and traces do; code here can read it.

    Attributes:
        contents: What it holds.
    """

    def __init__(self, contents: Mapping[str, Any]) -> None:
        self.contents = dict(contents)

    def __getitem__(self, key: str) -> Any:
        return self.contents[key]

    def update(self, *others: Any, **changes: Any) -> None:
        self.contents.update(*others, **changes)

    def __repr__(self) -> str:
        return "<withheld until a person decides>"


class TurnsChannel(LastValue[dict[str, Any]]):
    """The turns of an agent's councils, by name; what is written of one replaces its own.

    Each value under "pending" is a `Sealed` one, but in the checkpoint.
    """

    __slots__ = ()

    def __init__(self, typ: Any, key: str = "") -> None:
        super().__init__(typ, key)
        self.value = {}

    def checkpoint(self) -> dict[str, Any]:
        return {name: _with_pending(turn, dict) for name, turn in self.value.items()}

    def from_checkpoint(self, checkpoint: Any) -> "TurnsChannel":
        channel = TurnsChannel(self.typ, self.key)
        if isinstance(checkpoint, Mapping):  # before the first one, there is none
            channel.update([dict(checkpoint)])
        return channel

    def update(self, values: Sequence[dict[str, Any]]) -> bool:
        for turns in values:
            self.value = dict(self.value)  # what was read before stays as it was
            for name, turn in turns.items():
                self.value[name] = _with_pending(turn, Sealed)
        return bool(values)


def _with_pending(turn: Any, form: type[dict[str, Any]]) -> Any:
    """Returns a turn whose pending proposal has this form; a client may have written anything, which is no turn."""
    if not isinstance(turn, Mapping):
        return {}
    pending = turn.get("pending")
    if isinstance(pending, Sealed):
        pending = pending.contents
    elif not isinstance(pending, dict):
        return turn
    return {**turn, "pending": form(pending)}
