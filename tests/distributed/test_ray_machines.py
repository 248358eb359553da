"""On two machines: a process, a machine and the driver are killed in the middle; the result is the local engine's.

All that needs the two is in this file: they take long to start.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from coe_agents.evaluation.origin import DECISIONS, read_run
from coe_agents.evaluation.samples.store import SAMPLES
from tests.cli import test_run as runs
from tests.cli.command import COMMAND, run
from tests.cli.test_sample import AGENT, config, questions
from tests.servers import served
from tests.waiting import wait_until

pytestmark = pytest.mark.slow
N_QUESTIONS, SIZE, AT_ONCE = 24, 4, 5
NAMES = ("ada", "bea")
N_UNITS, N_SAMPLES = N_QUESTIONS * len(NAMES), 3
N_ROWS = N_UNITS * N_SAMPLES
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_ADDRESS": ""}
ROOT = Path(__file__).parents[2]


class TwoMachines:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.address = process.stdout.readline().strip()
        assert self.address.startswith("127.0.0.1:"), process.communicate()

    def workers(self) -> list[int]:
        processes = psutil.Process(self._process.pid).children(recursive=True)
        return [
            each.pid
            for each in processes
            if any("ray::MapWorker" in word for word in each.cmdline()[:1])
        ]

    def lose_one(self) -> None:
        self._process.stdin.write("lose\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "done\n"


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    told = tmp_path_factory.mktemp("cluster") / "stderr"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.distributed.two_nodes"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with (
        told.open("w") as stderr,
        subprocess.Popen(
            command, cwd=ROOT, env=environment, text=True, stderr=stderr, **pipes
        ) as process,
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


def agent(name, url):
    three = AGENT.replace("n_samples = 2", f"n_samples = {N_SAMPLES}")
    return three.format(name=name, url=url, more=f"max_concurrency = {AT_ONCE}")


@pytest.fixture(scope="module")
def server():
    with served(
        ("Paris", "Answer: Lyon", "It is Rome.", "half a pair: \ud83d"), seconds=0.15
    ) as state:
        yield state


@pytest.fixture(scope="module")
def local(tmp_path_factory, server):
    """The folder of a run in one process, and the options that every run shares."""
    folder = tmp_path_factory.mktemp("local")
    agents = (agent(name, server.url) for name in NAMES)
    records = (
        {"question": f"Question {number}?", "references": ["Lyon" if number % 3 else "Paris"]}
        for number in range(N_QUESTIONS)
    )
    options = ["--config", str(config(folder, *agents)), "--dataset", questions(folder, *records)]
    run("sample", *options, "--out", str(folder / "run"))
    assert len(server.requests) == N_UNITS
    return folder / "run", options


@pytest.fixture(autouse=True)
def quantity(server, local):
    server.requests.clear()
    server.most_busy = 0
    server.may_answer = lambda: True


HARD_WORK = [sys.executable, "-m", "tests.distributed.hard_work"]


def started(*arguments, command=(COMMAND,)):
    environment = {**os.environ, **LOOPBACK, "PYTHONPATH": str(ROOT)}
    options = {
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
        "start_new_session": True,
    }
    return subprocess.Popen([*command, *arguments], cwd=ROOT, env=environment, **options)


@contextmanager
def running(*arguments):
    process = started(*arguments)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def n_kept(folder, name=SAMPLES):
    path = folder / name
    return path.read_bytes().count(b"\n") if path.exists() else 0


def wait_for(holds, process):
    deadline = time.monotonic() + 600
    while not holds():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_killed_driver_of_decisions_leaves_no_trace(machines, server, tmp_path):
    server.seconds = 0.1
    agents = (agent(name, server.url) for name in NAMES)
    path = runs.config(
        tmp_path, *agents, otherwise="another_round", more="[graph]\nmax_rounds = 2\n"
    )
    command = ["run", "--dataset", runs.questions(tmp_path, N_QUESTIONS), "--config", path, "--out"]
    run(*command, tmp_path / "local")
    folder = tmp_path / "ray"
    ray = [
        *command,
        str(folder),
        "--engine",
        "ray",
        "--address",
        machines.address,
        "--partition-size",
        "2",
    ]
    server.may_answer = lambda: not n_kept(folder, DECISIONS)  # so that it cannot end before
    with running(*ray, "--actors", "1") as process:  # starts sooner than two
        wait_for(lambda: n_kept(folder, DECISIONS), process)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    assert n_kept(folder, DECISIONS) < N_QUESTIONS
    server.may_answer = lambda: True
    process = started(*ray)
    _, faults = process.communicate(timeout=600)
    assert process.returncode == 0, faults
    assert (folder / DECISIONS).read_bytes() == (tmp_path / "local" / DECISIONS).read_bytes()
    assert all(item.seconds is not None for item in read_run(folder).items.values())


def test_ctrl_c_killed_workers_and_a_lost_machine_cost_what_was_in_hand(
    machines, server, local, tmp_path
):
    """The second machine is lost for good."""
    folder, in_hand = tmp_path / "run", 2 * SIZE * len(NAMES)
    cluster = ["--engine", "ray", "--address", machines.address, "--partition-size", str(SIZE)]
    options = [*local[1], "--out", str(folder), "--at-once", str(AT_ONCE), *cluster]
    server.may_answer = lambda: not n_kept(folder)
    with running("sample", *options) as process:
        wait_for(lambda: n_kept(folder), process)
        os.kill(process.pid, signal.SIGINT)
        said, faults = process.communicate(timeout=600)
        assert process.returncode == 130, faults
    assert "Traceback" not in faults
    found = re.fullmatch(
        r"Interrupted; (\d+) requests are missing. Rerun the same command to resume.\n", said
    )
    n_missing = N_UNITS - n_kept(folder) // N_SAMPLES
    # a part whose rows are new as the interrupt comes may not be counted yet
    assert int(found[1]) - n_missing in range(SIZE * len(NAMES) + 1)
    assert n_missing
    assert len(server.requests) <= N_UNITS - n_missing + 2 * in_hand
    server.may_answer = lambda: True
    wait_until(lambda: server.n_busy == 0)
    server.requests.clear()
    server.most_busy, server.may_answer = 0, lambda: False
    with running("evaluate", *options, "--json") as process:
        # each of two processes has two of an address's five places
        wait_for(lambda: server.n_busy >= 2 * (AT_ONCE // 2), process)
        for worker in machines.workers():
            os.kill(worker, signal.SIGKILL)
        server.may_answer = lambda: True
        wait_until(lambda: server.n_busy == 0)
        n_asked, server.may_answer = len(server.requests), lambda: False
        wait_for(lambda: len(server.requests) > n_asked, process)
        machines.lose_one()
        server.may_answer = lambda: True
        said, faults = process.communicate(timeout=600)
        assert process.returncode == 0, faults
    assert server.most_busy == 2 * (AT_ONCE // 2)
    # what the killed ones had in hand is asked again, and what the machine had
    assert n_missing < len(server.requests) <= n_missing + 2 * in_hand
    assert "48 of 48 requests" in faults
    assert (folder / SAMPLES).read_bytes() == (local[0] / SAMPLES).read_bytes()
    assert json.loads(said) == json.loads(run("score", local[0], "--json", *local[1][:2]).stdout)


def test_what_the_work_raises_is_raised_and_a_part_that_ends_its_process_is_given_up(machines):
    said, faults = started(machines.address, command=HARD_WORK).communicate(timeout=600)
    no_folder, odd, no_key, ended, late = said.splitlines()
    assert no_folder == "OSError: [Errno 2] No such file or directory: '/none/of/this'", faults
    assert odd == "StoreError: TypeError: can't concat int to bytes. Finished parts are kept"
    assert no_key == "ConfigurationError: no key. Export it"
    lost = "3 processes ended while they worked on its part; the last:"
    assert ended == f"[b'D', b'end: {lost} for want of memory, perhaps']"
    assert late == f"[b'E', b'wait: {lost} the limit of 2 s']"


def test_a_cluster_of_our_own_listens_on_loopback_only_and_leaves_nothing(tmp_path):
    with started(command=HARD_WORK) as process:
        below, addresses, deadline = {}, set(), time.monotonic() + 600
        while not any(map(is_worker, alive(below))):
            assert time.monotonic() < deadline
            assert process.poll() is None, process.communicate()
            below |= {
                each.pid: each for each in psutil.Process(process.pid).children(recursive=True)
            }
            time.sleep(0.1)
        for each in alive(below):
            # an actor whose work failed ends meanwhile
            with suppress(psutil.NoSuchProcess):
                connections = each.net_connections("inet")
                addresses |= {found.laddr.ip for found in connections if found.status == "LISTEN"}
        process.terminate()
        process.communicate()
    assert addresses
    assert addresses <= {"127.0.0.1", "::ffff:127.0.0.1"}
    _, left = psutil.wait_procs(list(below.values()), timeout=300)
    assert left == []


def is_worker(process):
    try:
        return "MapWorker" in "".join(process.cmdline()[:1])
    except psutil.NoSuchProcess:  # it has ended meanwhile
        return False


def alive(processes):
    return [
        each
        for each in processes.values()
        if each.is_running() and each.status() != psutil.STATUS_ZOMBIE
    ]
