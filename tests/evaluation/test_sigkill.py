"""A run that is killed and started again ends with the very file of a run that was never killed."""

import json
import os
import random
import signal
import subprocess
import time
from contextlib import ExitStack

import pytest

from coe_agents.evaluation.samples.folder import SETTINGS
from coe_agents.evaluation.samples.store import SAMPLES
from tests.cli.command import COMMAND
from tests.servers import served

N_QUESTIONS, N_KILLS, AT_ONCE = 24, 3, 2
NAMES = ("ada", "bea", "cyd")
CONFIG = """\
{agents}
[clusterer]
kind = "normalized"
[policy]
kind = "threshold"
max_coe = 0.7
"""
AGENT = """\
[[agents]]
name = "{name}"
provider = "openai"
model = "served"
base_url = "{url}"
n_samples = 3
max_concurrency = {at_once}
"""


@pytest.fixture
def server():
    with served(("Paris", "Answer: Lyon", "It is Rome."), seconds=0.03) as state:
        yield state


def command(folder, server):
    config, data = folder / "coe.toml", folder / "data.jsonl"
    config.write_text(
        CONFIG.format(agents="".join(AGENT.format(name=name, url=server.url, at_once=1) for name in NAMES))
    )
    records = [{"question": f"Question {number}?", "references": ["Paris"]} for number in range(N_QUESTIONS)]
    data.write_text("".join(json.dumps(record) + "\n" for record in records))
    options = ["--config", str(config), "--dataset", str(data), "--at-once", str(AT_ONCE)]
    return [COMMAND, "sample", *options, "--out"]


def start(stack, *arguments):
    # in a session of its own, so that a signal reaches it alone; what runs in the background is born deaf to SIGINT
    listening = ["env", "--default-signal=INT", *arguments]
    return stack.enter_context(
        subprocess.Popen(listening, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    )


def size(path):
    return path.stat().st_size if path.exists() else 0


def grown(process, path, more):
    """Waits until the process has written so many bytes."""
    before, deadline = size(path), time.monotonic() + 300
    while size(path) < before + more:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.001)


def kill_often(command, folder, name, expected, server):
    """Kills a command three times while it writes; the fourth run must end with the expected file.

    From the size on at which it is to be killed, the server answers nothing, so that it cannot end before.
    """
    chance, file = random.Random(0), folder / name
    with ExitStack() as stack:
        for _ in range(N_KILLS):
            more = chance.randrange(1, len(expected) // 9)
            least = size(file) + more
            server.may_answer = lambda least=least: size(file) < least
            process = start(stack, *command, str(folder))
            grown(process, file, more)
            time.sleep(chance.uniform(0, 0.05))
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()
            assert process.returncode == -signal.SIGKILL
            assert size(file) < len(expected)
    server.may_answer = lambda: True
    done = subprocess.run([*command, str(folder)], capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    assert file.read_bytes() == expected


@pytest.mark.slow
def test_three_kills_leave_no_trace(tmp_path, server):
    sample = command(tmp_path, server)
    whole = subprocess.run([*sample, str(tmp_path / "whole")], capture_output=True, text=True, check=False, timeout=600)
    assert whole.returncode == 0, whole.stderr
    expected = (tmp_path / "whole" / SAMPLES).read_bytes()
    n_units = N_QUESTIONS * len(NAMES)
    assert expected.count(b"\n") == 3 * n_units
    assert len(server.requests) == n_units

    broken = tmp_path / "broken"
    kill_often(sample, broken, SAMPLES, expected, server)
    assert (broken / SETTINGS).read_bytes() == (tmp_path / "whole" / SETTINGS).read_bytes()
    # only what was in flight is asked twice
    assert n_units <= len(server.requests) - n_units <= n_units + N_KILLS * AT_ONCE * len(NAMES)
