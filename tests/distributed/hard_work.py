"""Work that fails, for a driver of its own: prints the result of each part, and what was raised."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from coe_agents.distributed.ray_cluster import Pool, cluster, work_through
from coe_agents.errors import ConfigurationError


def create() -> Callable[[bytes], Coroutine[Any, Any, bytes]]:
    return work


def create_without_key() -> Callable[[bytes], Coroutine[Any, Any, bytes]]:
    raise ConfigurationError("no key", hint="Export it")


async def work(content: bytes) -> bytes:
    if content == b"end":
        os.kill(os.getpid(), signal.SIGKILL)
    if content == b"wait":
        await asyncio.sleep(600)
    if content == b"no folder":
        os.rmdir("/none/of/this")
    return content.upper() if content != b"odd" else content + 1


def give_up(content: bytes, reason: str) -> bytes:
    return content + b": " + reason.encode()


def main(address: str | None) -> None:
    with cluster(address):
        for contents, made in (
            ((b"no folder",), create),
            ((b"odd",), create),
            ((b"c",), create_without_key),
            ((b"end", b"d"), create),
            ((b"wait", b"e"), create),
        ):
            try:
                pool = Pool(1, seconds=2.0 if b"wait" in contents else 600.0)
                print(sorted(work_through(contents, made, pool, give_up)), file=sys.__stdout__)
            except Exception as error:
                print(f"{type(error).__name__}: {error}", file=sys.__stdout__)


if __name__ == "__main__":
    from tests.distributed.hard_work import main  # so that actors find it under its name

    main(sys.argv[1] if sys.argv[1:] else None)
