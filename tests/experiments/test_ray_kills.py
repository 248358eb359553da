"""On two machines: a process, a machine and the driver are killed in the middle; the result is the local engine's."""

import json
import os
import re
import signal
import subprocess
import time
from contextlib import contextmanager

import pytest

from coe_agents.evaluation.samples.store import SAMPLES
from tests.cli.command import COMMAND
from tests.cli.test_sample import AGENT, config, questions
from tests.experiments.two_machines import LOOPBACK, ROOT
from tests.servers import served
from tests.waiting import wait_until

pytestmark = pytest.mark.slow
N_QUESTIONS, SIZE, AT_ONCE = 24, 4, 5
NAMES = ("ada", "bea")
N_UNITS, N_SAMPLES = N_QUESTIONS * len(NAMES), 3
N_ROWS = N_UNITS * N_SAMPLES


def agent(name, url):
    three = AGENT.replace("n_samples = 2", f"n_samples = {N_SAMPLES}")
    return three.format(name=name, url=url, more=f"max_concurrency = {AT_ONCE}")


@pytest.fixture(scope="module")
def server():
    with served(("Paris", "Answer: Lyon", "It is Rome.", "half a pair: \ud83d"), seconds=0.15) as state:
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
    process = started("sample", *options, "--out", str(folder / "run"))
    said, faults = process.communicate(timeout=600)
    assert process.returncode == 0, said + faults
    assert len(server.requests) == N_UNITS
    return folder / "run", options


@pytest.fixture(autouse=True)
def quantity(server, local):
    server.requests.clear()
    server.most_busy = 0
    server.may_answer = lambda: True


def started(*arguments):
    environment = {**os.environ, **LOOPBACK, "PYTHONPATH": str(ROOT)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([COMMAND, *arguments], env=environment, text=True, start_new_session=True, **pipes)


@contextmanager
def running(*arguments):
    process = started(*arguments)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def n_kept(run):
    path = run / SAMPLES
    return path.read_bytes().count(b"\n") if path.exists() else 0


def wait_for(run, n_rows, process):
    deadline = time.monotonic() + 600
    while n_kept(run) < n_rows:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_killed_workers_change_nothing(machines, server, local, tmp_path):
    run = tmp_path / "run"
    options = [*local[1], "--out", str(run), "--at-once", str(AT_ONCE), "--json"]
    cluster = ["--engine", "ray", "--address", machines.address, "--partition-size", str(SIZE)]
    server.may_answer = lambda: not n_kept(run)
    with running("evaluate", *options, *cluster) as process:
        wait_for(run, 1, process)
        wait_until(lambda: server.n_busy > 0)  # between two parts there is nothing to lose
        for worker in machines.workers():
            os.kill(worker, signal.SIGKILL)
        server.may_answer = lambda: True
        said, faults = process.communicate(timeout=600)
        assert process.returncode == 0, faults
    assert (run / SAMPLES).read_bytes() == (local[0] / SAMPLES).read_bytes()
    # each of two processes has two of an address's five places; what the killed ones had in hand is asked again
    assert server.most_busy <= 2 * (AT_ONCE // 2)
    assert N_UNITS < len(server.requests) <= N_UNITS + 2 * SIZE * len(NAMES)
    assert "48 of 48 replies" in faults
    assert json.loads(said) == scores(local)


def scores(local):
    process = started("score", str(local[0]), "--json", *local[1][:2])
    said, faults = process.communicate(timeout=600)
    assert process.returncode == 0, faults
    return json.loads(said)


def test_a_killed_driver_ctrl_c_and_a_lost_machine_cost_what_was_in_hand(machines, server, local, tmp_path):
    run = tmp_path / "run"
    cluster = ["--engine", "ray", "--address", machines.address, "--partition-size", str(SIZE)]
    command = ["sample", *local[1], "--out", str(run), "--at-once", str(AT_ONCE), *cluster]
    server.may_answer = lambda: not n_kept(run)
    with running(*command) as process:
        wait_for(run, 1, process)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    kept = n_kept(run)
    assert 0 < kept < N_ROWS
    server.may_answer = lambda: n_kept(run) <= kept
    with running(*command) as process:
        wait_for(run, kept + 1, process)
        os.kill(process.pid, signal.SIGINT)
        said, faults = process.communicate(timeout=600)
        assert process.returncode == 130, faults
    assert "Traceback" not in faults
    found = re.fullmatch(r"Interrupted; (\d+) replies are missing. Rerun the same command to resume.\n", said)
    n_before = n_kept(run)
    # a part whose rows are new as the interrupt comes may not be counted yet
    assert int(found[1]) - (N_UNITS - n_before // N_SAMPLES) in range(SIZE * len(NAMES) + 1)
    server.may_answer = lambda: n_kept(run) <= n_before
    with running(*command) as process:
        wait_for(run, n_before + 1, process)
        with machines.without_one():
            server.may_answer = lambda: True
            said, faults = process.communicate(timeout=600)
        assert process.returncode == 0, faults
    assert said == f"{N_QUESTIONS} questions, 2 agents: {run / SAMPLES}\n"
    assert (run / SAMPLES).read_bytes() == (local[0] / SAMPLES).read_bytes()
    # two parts were in hand when the driver was killed and interrupted, and at most two when the machine was lost
    assert N_UNITS <= len(server.requests) <= N_UNITS + 6 * SIZE * len(NAMES)
