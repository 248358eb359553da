"""A PostgreSQL server of the tests' own: a new cluster in a temporary folder, reached through a socket there."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def programs() -> Path | None:
    """Returns the folder of `initdb` and `postgres`, which Debian keeps off the path; None if not installed."""
    debian = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3])
    )
    found = shutil.which("initdb") or (debian[-1] if debian else None)
    return Path(found).resolve().parent if found else None


@contextmanager
def running_postgres() -> Iterator[str]:
    """Yields the address of a new server, which ends with the block."""
    folder = programs()
    if folder is None:
        raise FileNotFoundError(
            "PostgreSQL's initdb is not here. On Debian: apt-get install postgresql"
        )
    # PostgreSQL refuses to run as root
    user: dict[str, Any] = (
        {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
    )
    with tempfile.TemporaryDirectory(
        prefix="coe-pg-", dir="/tmp"
    ) as home:  # a socket's path has at most 107 bytes
        if user:
            shutil.chown(home, user["user"], user["group"])
        data = f"{home}/data"
        new = ["-D", data, "-U", "coe", "-A", "trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
        _run([folder / "initdb", *new], cwd=home, **user)
        command = [
            folder / "postgres",
            "-D",
            data,
            "-k",
            home,
            "-c",
            "listen_addresses=",
            "-c",
            "fsync=off",
        ]
        with Path(home, "log").open("wb") as log:
            server = subprocess.Popen(command, stdout=log, stderr=log, cwd=home, **user)
        try:
            _await(server, folder, home)
            yield f"postgresql://coe@/postgres?host={home}"
        finally:
            server.send_signal(
                signal.SIGINT
            )  # ends sessions and stops; SIGTERM would wait for them
            try:
                server.wait(60)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def _run(command: list[Any], **options: Any) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode:
        raise RuntimeError(
            f"{command[0]} ended with {done.returncode}: {done.stderr.strip() or done.stdout.strip()}"
        )


def _await(server: subprocess.Popen[bytes], folder: Path, home: str) -> None:
    """Returns once the server takes connections."""
    ready = [folder / "pg_isready", "-q", "-h", home]
    for _ in range(3000):
        if server.poll() is not None:
            break
        if subprocess.run(ready, check=False).returncode == 0:
            return
        time.sleep(0.1)
    raise RuntimeError(f"PostgreSQL did not start: {Path(home, 'log').read_text().strip()}")
