import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_ADDRESS": ""}
ROOT = Path(__file__).parents[2]


class TwoMachines:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.address = process.stdout.readline().strip()
        assert self.address.startswith("127.0.0.1:"), process.communicate()

    def workers(self) -> list[int]:
        processes = psutil.Process(self._process.pid).children(recursive=True)
        return [each.pid for each in processes if any("ray::MapWorker" in word for word in each.cmdline()[:1])]

    def lose_one(self) -> None:
        self._process.stdin.write("lose\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "done\n"


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    told = tmp_path_factory.mktemp("cluster") / "stderr"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.experiments.two_nodes"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with (
        told.open("w") as stderr,
        subprocess.Popen(command, cwd=ROOT, env=environment, text=True, stderr=stderr, **pipes) as process,
    ):
        try:
            yield TwoMachines(process)
        finally:
            below = psutil.Process(process.pid).children(recursive=True)
            process.stdin.close()
            process.wait(300)
            for each in below:  # as nothing must be left
                if each.is_running():
                    each.kill()
