"""A LangGraph server of the tests' own, as `make serve` starts it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.ports import reserved_port

ROOT = Path(__file__).parents[2]
SERVED = json.loads((ROOT / "langgraph.json").read_text())
LONGEST_START = 600


def command_of_make(port: int) -> list[str]:
    command = ["make", "--dry-run", "--assume-old", ".venv/.ready", "serve", f"PORT={port}"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = re.search(r"/langgraph (dev .*)", printed)
    assert found, printed
    return found[1].split()


@contextmanager
def running_server(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yields the address and the log of a server with the graphs of `langgraph.json`, and one that blocks its loop."""
    graphs = {**SERVED["graphs"], "blocking": {"path": "./tests/serving/blocking.py:graph"}}
    named = {name: {**about, "path": str(ROOT / about["path"])} for name, about in graphs.items()}
    http = {"app": str(ROOT / SERVED["http"]["app"])}
    (folder / "langgraph.json").write_text(
        json.dumps({"dependencies": [str(ROOT)], "http": http, "graphs": named})
    )
    with reserved_port() as port:
        quiet = {
            "LANGSMITH_TRACING": "false",
            "LANGGRAPH_CLI_NO_ANALYTICS": "1",
            "LANGGRAPH_NO_VERSION_CHECK": "true",
        }
        command = [str(Path(sys.executable).with_name("langgraph")), *command_of_make(port)]
        log, start = folder / "log", time.monotonic()
        with log.open("w") as output:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env={**os.environ, **quiet, "PYTHONPATH": str(ROOT)},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            url = f"http://127.0.0.1:{port}"
            while not is_up(url):
                assert process.poll() is None, log.read_text()
                assert time.monotonic() - start < LONGEST_START, log.read_text()
                time.sleep(0.1)
            print(f"the server was up after {time.monotonic() - start:.1f} s")
            yield url, log
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(60)


def is_up(url: str) -> bool:
    try:
        return httpx.get(f"{url}/ok", timeout=10).status_code == 200
    except httpx.TransportError:
        return False
