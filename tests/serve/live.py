"""A group behind real sockets: in a thread of this process, or as the command in a process of its own."""

import os
import re
import select
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager

from coe_agents.serve import create_app
from coe_agents.serve.http_server import address_of, create_server, open_socket
from tests.configurations import SERVED

PATIENCE = 300.0


def written(folder, url="http://127.0.0.1:9/v1", *, max_coe=0.5, more=""):
    """Writes the configuration of a group whose agent is at an address; returns its path."""
    path = folder / "coe.toml"
    path.write_text(SERVED.format(url=url, max_coe=max_coe) + more)
    return path


@contextmanager
def serving(group, **options):
    """Serves the group for as long as the context lasts; yields the server's address."""
    with serving_app(create_app(group, **options)) as address:
        yield address


@contextmanager
def serving_app(app):
    """Serves an application for as long as the context lasts, as the command does; yields the server's address."""
    server = create_server(app, grace=30)
    with open_socket("127.0.0.1", 0) as listening:
        address = address_of(listening)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield address
        finally:
            server.should_exit = True
            thread.join()


class Process(subprocess.Popen):
    """The command in a process of its own; its log is in a file, since a pipe that nobody reads would stop it."""

    def __init__(self, *arguments, **environment):
        self.log_file = tempfile.TemporaryFile("w+")  # noqa: SIM115  # closed by `close`
        super().__init__(
            [sys.executable, "-m", "coe_agents", "serve", "--port", "0", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=self.log_file,
            text=True,
            env={**os.environ, **environment},
        )
        ready, _, _ = select.select([self.stdout], [], [], PATIENCE)
        found = re.search(r"http://[^/ ]+", self.stdout.readline() if ready else "")
        assert found, self.log
        self.address = found[0]

    @property
    def log(self):
        self.log_file.seek(0)
        return self.log_file.read()

    def close(self):
        self.kill()
        self.communicate()
        self.log_file.close()


@contextmanager
def command(*arguments, **environment):
    """Runs `coe-agents serve` at a free port; yields its process."""
    process = Process(*arguments, **environment)
    try:
        yield process
    finally:
        process.close()
