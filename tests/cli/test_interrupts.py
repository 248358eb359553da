import errno
import signal
import subprocess
import sys

import pytest

from coe_agents.cli import terminal
from tests.cli.command import COMMAND
from tests.cli.test_sample import AGENT, config
from tests.servers import served
from tests.waiting import wait_until


@pytest.mark.slow
def test_ctrl_c_ends_ask_while_a_server_hangs(tmp_path):
    with served(seconds=600) as server:
        path = config(tmp_path, *(AGENT.format(name=name, url=server.url, more="") for name in "ab"))
        command = [sys.executable, COMMAND, "ask", "Q?", "--json", "--config", str(path)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            wait_until(lambda: server.n_busy)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=120)  # the agents would wait for ten minutes
        finally:
            process.kill()
            process.wait()
    assert process.returncode == 130
    assert terminal._GRACE < 2  # how long that takes on an idle machine
    assert "Traceback" not in out + err


def test_a_full_disk_says_how_to_resume_too(capsys):
    with pytest.raises(OSError, match="No space left"), terminal.resumable(lambda: "3 questions are"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert capsys.readouterr().out == "3 questions are missing. Rerun the same command to resume.\n"
