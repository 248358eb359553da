"""Owns the table of the ring: rooms that the core never imports, and that may be taken away with their tests and pages.

It is the one door to a higher layer. The core finds a part of a room here, by the part's name, when the part is needed.
A package of the core finds a part of a higher layer of the core here, too: `coe_agents.evaluation.calibrate`.
"""

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

ROOMS = ("advice", "claims", "distributed", "observability", "pages", "paper", "rulings", "serve")

COMMANDS: Mapping[str, str] = {
    "report": "pages.command:report",
    "weights": "advice.command:weights",
    "advise": "advice.command:advise",
    "audit": "rulings.command:audit",
    "harvest": "rulings.command:harvest",
    "reproduce": "paper.command:reproduce",
    "serve": "serve.command:serve",
}
"""The room's module and function of each command of the ring."""


def is_there(reference: str) -> bool:
    """Returns whether the room of a reference, "room.module:name", is installed."""
    return find_spec(f"coe_agents.{_room_of(reference)}") is not None


def load(reference: str) -> Any:
    """Returns what a reference names: "room:name", or "room.module:name"; of a package above the caller, in its way.

    Raises:
        ImportError: The room was taken away.
    """
    if not is_there(reference):
        raise ImportError(missing_room(reference))
    module, _, name = reference.partition(":")
    return getattr(import_module(f"coe_agents.{module}"), name)


def missing_room(reference: str) -> str:
    """Returns the message for a reference whose room was taken away."""
    return (
        f"this needs coe_agents.{_room_of(reference)}, which is not installed. Reinstall coe-agents"
    )


def _room_of(reference: str) -> str:
    return reference.partition(":")[0].partition(".")[0]
