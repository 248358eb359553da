"""Work that fails, for a driver of its own: prints the result of each part, and what was raised."""

import os
import signal
import sys
import time
from collections.abc import Callable

from coe_agents.errors import ConfigurationError
from coe_agents.experiments.ray_cluster import Pool, cluster, work_through


def create() -> Callable[[bytes], bytes]:
    return work


def create_without_key() -> Callable[[bytes], bytes]:
    raise ConfigurationError("no key", hint="Export it")


def work(content: bytes) -> bytes:
    if content == b"end":
        os.kill(os.getpid(), signal.SIGKILL)
    if content == b"wait":
        time.sleep(600)
    if content == b"no folder":
        os.rmdir("/none/of/this")
    return content.upper() if content != b"odd" else content + 1


def give_up(content: bytes, reason: str) -> bytes:
    return content + b": " + reason.encode()


def main(address: str | None) -> None:
    with cluster(address):
        for contents, made in (
            ((b"a", b"b"), create),
            ((b"no folder",), create),
            ((b"odd",), create),
            ((b"c",), create_without_key),
            ((b"end", b"d"), create),
            ((b"wait", b"e"), create),
        ):
            try:
                pool = Pool(1, seconds=2.0 if b"wait" in contents else 600.0)
                print(sorted(work_through(enumerate(contents), made, pool, give_up)), file=sys.__stdout__)
            except Exception as error:
                print(f"{type(error).__name__}: {error}", file=sys.__stdout__)


if __name__ == "__main__":
    from tests.experiments.hard_work import main  # so that actors find it under its name

    main(sys.argv[1] if sys.argv[1:] else None)
