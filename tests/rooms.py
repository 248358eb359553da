"""What of the core's tests goes through rooms of the ring, too: it is left out where one was taken away."""

import pytest

from coe_agents import _ring

OPTIONS = {"--claims": "claims", "--current": "rulings", "--engine": "distributed"}
"""The room behind an option of a command of the core."""


def needs(*rooms):
    """Returns the mark of a test that needs rooms."""
    missing = [room for room in rooms if not _ring.is_there(room)]
    return pytest.mark.skipif(bool(missing), reason=f"without {', '.join(missing)}")


def can_run(command):
    """Returns whether the rooms of a command, and of its options, are there."""
    name, *words = command.split()
    needed = [OPTIONS[word] for word in words if word in OPTIONS]
    if name in _ring.COMMANDS:
        needed.append(_ring.COMMANDS[name])
    return all(map(_ring.is_there, needed))
