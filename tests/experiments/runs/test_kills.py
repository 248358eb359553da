"""A run that is killed five times and started again ends with the very file of a run that was never killed."""

import subprocess

import pytest

from coe_agents.evaluation.run_decisions import DECISIONS, read_run
from coe_agents.evaluation.samples.folder import SETTINGS
from tests.cli.command import COMMAND
from tests.evaluation.test_sigkill import AGENT, NAMES, kill_often
from tests.experiments.runs.test_run import config, questions
from tests.servers import served

N_QUESTIONS, AT_ONCE = 24, 2


@pytest.mark.slow
def test_five_kills_leave_no_trace(tmp_path):
    rounds = '[graph]\nmax_rounds = 2\n[graph.strategies]\nconflict = "debate"\nunknown = "resample"\n'
    with served(("Paris", "Answer: Lyon", "It is Rome."), seconds=0.02) as server:
        agents = (AGENT.format(name=name, url=server.url, at_once=1) for name in NAMES)
        path = config(tmp_path, *agents, otherwise="another_round", more=rounds)
        options = ["--dataset", questions(tmp_path, N_QUESTIONS), "--config", path, "--at-once", str(AT_ONCE)]
        command = [COMMAND, "run", *options, "--out"]
        whole = subprocess.run([*command, str(tmp_path / "whole")], capture_output=True, text=True, check=False)
        assert whole.returncode == 0, whole.stderr
        expected = (tmp_path / "whole" / DECISIONS).read_bytes()
        assert expected.count(b"\n") == N_QUESTIONS
        broken = tmp_path / "broken"
        kill_often(command, broken, DECISIONS, expected, server)
    assert (broken / SETTINGS).read_bytes() == (tmp_path / "whole" / SETTINGS).read_bytes()
    found = read_run(broken)
    assert all(item.seconds is not None for item in found.items.values())
    assert max(item.decision["n_rounds"] for item in found.items.values()) == 2
