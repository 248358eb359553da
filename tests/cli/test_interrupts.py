import errno

import pytest

from coe_agents.cli import terminal
from tests.cli.command import interrupted
from tests.cli.test_sample import AGENT, config
from tests.servers import served
from tests.waiting import wait_until


@pytest.mark.slow
def test_ctrl_c_ends_ask_while_a_server_hangs(tmp_path):
    with served(seconds=600) as server:
        path = config(
            tmp_path, *(AGENT.format(name=name, url=server.url, more="") for name in "ab")
        )
        # the agents would wait for ten minutes
        interrupted(
            "ask",
            "Q?",
            "--json",
            "--config",
            path,
            when=lambda _: wait_until(lambda: server.n_busy),
        )
    assert terminal._GRACE < 2  # how long that takes on an idle machine


def test_a_full_disk_says_how_to_resume_too(capsys):
    full = OSError(errno.ENOSPC, "No space left on device")
    full.add_note("3 questions are missing")
    with pytest.raises(OSError, match="No space left"), terminal.resumable():
        raise full
    assert capsys.readouterr().out == "3 questions are missing. Rerun the same command to resume.\n"
