import errno
import signal
import socket
import subprocess
import sys
import threading

import pytest

from coe_agents.cli import interrupts
from coe_agents.cli.interrupts import resumable
from tests.cli.command import COMMAND
from tests.cli.test_sample import AGENT, config


@pytest.fixture
def hanging():
    """Yields the port of a server that accepts connections and never replies, and an event that says it was asked."""
    asked, held = threading.Event(), []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept():
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                held.append(connection)
                if connection.recv(1):
                    asked.set()

        threading.Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1], asked
        for connection in held:
            connection.close()


@pytest.mark.slow
@pytest.mark.parametrize("options", [["--json"]])
def test_ctrl_c_ends_ask_while_a_server_hangs(tmp_path, hanging, options):
    port, asked = hanging
    path = config(tmp_path, *(AGENT.format(name=name, url=f"http://127.0.0.1:{port}/v1", more="") for name in "ab"))
    command = [sys.executable, COMMAND, "ask", "What is the capital of France?", "--config", str(path), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert asked.wait(120)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=120)  # the agents would wait for ten minutes
        finally:
            process.kill()
    assert process.returncode == 130
    assert interrupts._GRACE < 2  # how long that takes on an idle machine
    assert "Traceback" not in out + err


def test_a_full_disk_says_how_to_resume_too(capsys):
    with pytest.raises(OSError, match="No space left"), resumable(lambda: "3 questions are"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert capsys.readouterr().out == "3 questions are missing. Rerun the same command to resume.\n"
