"""On two machines: a driver that is killed twice ends with the very file of a run in one process."""

import os
import random
import signal
import time

import pytest

from coe_agents.evaluation.run_decisions import DECISIONS, read_run
from tests.cli.test_run import config, questions
from tests.experiments.test_ray_kills import NAMES, agent, running, started
from tests.servers import served

pytestmark = pytest.mark.slow
N_QUESTIONS, N_KILLS, SIZE = 24, 2, 2


def n_lines(path):
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_two_kills_of_the_driver_leave_no_trace(machines, tmp_path):
    with served(("Paris", "Answer: Lyon", "It is Rome."), seconds=0.1) as server:
        agents = (agent(name, server.url) for name in NAMES)
        path = config(tmp_path, *agents, otherwise="another_round", more="[graph]\nmax_rounds = 2\n")
        command = ["run", "--dataset", questions(tmp_path, N_QUESTIONS), "--config", path, "--out"]
        process = started(*command, str(tmp_path / "local"))
        said, faults = process.communicate(timeout=600)
        assert process.returncode == 0, said + faults
        expected = (tmp_path / "local" / DECISIONS).read_bytes()
        run, chance = tmp_path / "ray", random.Random(0)
        ray = [*command, str(run), "--engine", "ray", "--address", machines.address, "--partition-size", str(SIZE)]
        for _ in range(N_KILLS):
            before, deadline = n_lines(run / DECISIONS), time.monotonic() + 600
            server.may_answer = lambda most=before: n_lines(run / DECISIONS) <= most  # so that it cannot end before
            with running(*ray, "--actors", "1") as process:  # starts sooner than two
                while n_lines(run / DECISIONS) <= before:
                    assert process.poll() is None, process.communicate()
                    assert time.monotonic() < deadline
                    time.sleep(0.005)
                time.sleep(chance.uniform(0, 0.05))
                os.kill(process.pid, signal.SIGKILL)
                process.communicate()
            assert n_lines(run / DECISIONS) < N_QUESTIONS
        server.may_answer = lambda: True
        process = started(*ray)
        said, faults = process.communicate(timeout=600)
        assert process.returncode == 0, faults
    assert (run / DECISIONS).read_bytes() == expected
    assert all(item.seconds is not None for item in read_run(run).items.values())
