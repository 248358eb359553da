"""A run that is killed five times and started again ends with the very file of a run that was never killed."""

import os
import random
import signal
import subprocess
import time
from contextlib import ExitStack

import pytest

from coe_agents.evaluation.decisions import DECISIONS, read_run
from coe_agents.evaluation.samples.folder import SETTINGS
from tests.cli.command import COMMAND
from tests.evaluation.test_sigkill import AGENT, N_KILLS, NAMES, grown, size, start
from tests.runs.test_run import config, questions
from tests.servers import served

N_QUESTIONS, AT_ONCE = 24, 2


@pytest.mark.slow
def test_five_kills_leave_no_trace(tmp_path):
    rounds = '[graph]\nmax_rounds = 2\n[graph.strategies]\nconflict = "debate"\nunknown = "resample"\n'
    with served(("Paris", "Answer: Lyon", "It is Rome."), seconds=0.02) as server, ExitStack() as stack:
        agents = (AGENT.format(name=name, url=server.url, at_once=1) for name in NAMES)
        path = config(tmp_path, *agents, otherwise="another_round", more=rounds)
        options = ["--dataset", questions(tmp_path, N_QUESTIONS), "--config", path, "--at-once", str(AT_ONCE)]
        command = [COMMAND, "run", *options, "--out"]
        whole = subprocess.run([*command, str(tmp_path / "whole")], capture_output=True, text=True, check=False)
        assert whole.returncode == 0, whole.stderr
        expected = (tmp_path / "whole" / DECISIONS).read_bytes()
        assert expected.count(b"\n") == N_QUESTIONS
        chance, broken = random.Random(0), tmp_path / "broken"
        for _ in range(N_KILLS):
            process = start(stack, *command, str(broken))
            grown(process, broken / DECISIONS, chance.randrange(1, len(expected) // 9))
            time.sleep(chance.uniform(0, 0.05))
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()
            assert process.returncode == -signal.SIGKILL
            assert size(broken / DECISIONS) < len(expected)
        done = subprocess.run([*command, str(broken)], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert (broken / DECISIONS).read_bytes() == expected
    assert (broken / SETTINGS).read_bytes() == (tmp_path / "whole" / SETTINGS).read_bytes()
    found = read_run(broken)
    assert all(item.seconds is not None for item in found.items.values())
    assert max(item.steps[0].decision["n_rounds"] for item in found.items.values()) == 2
