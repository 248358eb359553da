"""What of the tests needs a room of the ring: it is left out where the room was taken away."""

import pytest

from coe_agents import _ring


def needs(*rooms):
    """Returns the mark of a test of the core's that goes through rooms of the ring, too."""
    missing = [room for room in rooms if not _ring.is_there(room)]
    return pytest.mark.skipif(bool(missing), reason=f"without {', '.join(missing)}")


def can_run(command):
    """Returns whether a command of the core or of a room that is there."""
    reference = _ring.COMMANDS.get(command.split()[0])
    return reference is None or _ring.is_there(reference)
