"""Ports for servers that are told theirs by number."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def reserved_port() -> Iterator[int]:
    """Yields a port of 127.0.0.1 at which a server may listen in the block, and which nobody else is given meanwhile.

    A port that is free when a test looks may be taken by the time at which a slow server listens. This one is bound, so
    that the system gives it to nobody who leaves the choice to it; servers share it as they reuse addresses.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
