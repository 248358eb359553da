"""When the garbage collector runs: rarely in the process of a command that ends soon, and not as it ends."""

import gc
import subprocess
import sys
from contextlib import suppress

import pytest

from coe_agents.cli.collector import rare_collections
from coe_agents.errors import ConfigurationError
from tests.cli.command import run


def test_the_threshold_is_as_before_after_the_block():
    before = gc.get_threshold()
    inside = []
    with suppress(ConfigurationError), rare_collections(5_000):
        inside.append(gc.get_threshold())
        raise ConfigurationError("ends the block")
    assert inside == [(5_000, *before[1:])]
    assert gc.get_threshold() == before


def printed(script):
    """What a script prints in a process of its own, in which nothing else makes or frees objects."""
    return subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True).stdout.split()


def test_no_collection_visits_what_was_made_as_soon_as_the_block_ends():
    script = """
import gc
from coe_agents.cli.collector import rare_collections
starts = []
gc.collect()
gc.callbacks.append(lambda *_: starts.append(1))
with rare_collections(1_000_000):
    kept = [[] for _ in range(10_000)]
more = [[] for _ in range(100)]  # far fewer than Python's threshold
print(len(starts), gc.get_freeze_count())
"""
    assert printed(script) == ["0", "0"]  # not frozen: later collections visit it as usual


def test_what_a_caller_froze_stays_frozen():
    script = """
import gc
from coe_agents.cli.collector import rare_collections
gc.freeze()
n_frozen = gc.get_freeze_count()
with rare_collections(1_000_000):
    pass
print(n_frozen > 0, gc.get_freeze_count() == n_frozen)
"""
    assert printed(script) == ["True", "True"]


@pytest.mark.parametrize("arguments", [["ask", "Q?"], ["demo"]])
def test_questions_are_asked_with_rare_collections(arguments, monkeypatch):
    seen = []

    def create(path):
        seen.append(gc.get_threshold()[0])
        raise ConfigurationError("seen")

    monkeypatch.setattr("coe_agents.cli.ask._create_graph", create)
    assert run(*arguments).returncode == 2
    assert seen == [1_000_000]


def said_at_the_end(code):
    """What a process prints that calls the command `coe-agents --version` after the code."""
    call = "import sys; from coe_agents.cli import main; sys.argv[1:] = ['--version']; main()"
    done = subprocess.run([sys.executable, "-c", f"{code}; {call}"], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[1:]


def test_what_exists_at_the_end_is_frozen():
    # exit handlers run in reverse order: this one after the command's
    assert said_at_the_end("import atexit, gc; atexit.register(lambda: print(gc.get_freeze_count() > 10_000))") == [
        "True"
    ]


def test_a_file_that_is_left_open_is_written_to_the_end(tmp_path):
    path = tmp_path / "left open"
    assert not said_at_the_end(f"file = open({str(path)!r}, 'w'); file.write('all of it')")
    assert path.read_text() == "all of it"
