import json
import multiprocessing
import signal

import pytest

from tests.graph import killable

pytestmark = pytest.mark.slow
FIRST = {"question": "First?"}
ROUNDS = 2
# the server forks a process for each run, from one that has loaded everything and run nothing
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["pytest", "scipy.special", "tests.graph.killable"])


def run(folder, given, **options):
    """Runs in a process of its own; returns the result, or None if it was killed."""
    folder.mkdir(exist_ok=True)
    (folder / "result.json").unlink(missing_ok=True)
    process = FORKS.Process(target=killable.run, args=(str(folder), given), kwargs=options)
    process.start()
    process.join(300)
    if process.exitcode == -signal.SIGKILL:
        return None
    assert process.exitcode == 0
    return json.loads((folder / "result.json").read_text())


def unanswered(folder):
    asked, said = killable.calls(folder)
    return asked - said


def same(result, unbroken):
    """Whether all is the same but the number of writes, which the process before the kill had a part in."""
    return {**result, "n_writes": 0} == {**unbroken, "n_writes": 0}


def test_killed_after_any_write_it_resumes_to_the_same_decision_and_samples_nothing_twice(tmp_path):
    unbroken = run(tmp_path / "unbroken", FIRST, rounds=ROUNDS)
    n_writes = unbroken["n_writes"]
    assert n_writes >= 15 + 11  # the writes of 15 nodes, and the checkpoints of 11 steps
    for k in range(n_writes, 0, -1):
        folder = tmp_path / str(k)
        assert run(folder, FIRST, dies_after=k, rounds=ROUNDS) is None
        cut_off = unanswered(folder)
        assert same(run(folder, None, rounds=ROUNDS), unbroken), (
            f"killed after write {k} of {n_writes}"
        )
        said = killable.calls(folder)[1]
        once = {(name, number, "First?"): 1 for name in killable.NAMES for number in range(ROUNDS)}
        assert said == once, f"killed after write {k} of {n_writes}"
        # calls that the kill cut off are made again, and no others: none to all three, as a write may come late
        assert unanswered(folder) == cut_off, f"killed after write {k} of {n_writes}"
