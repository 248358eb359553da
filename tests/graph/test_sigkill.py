"""SIGKILL after any write to the disk, and what a new process makes of the thread."""

import json
import multiprocessing
import signal

import pytest

from tests.graph import killable

pytestmark = pytest.mark.slow
FIRST = {"question": "First?"}
# the server forks a process for each run, from one that has loaded everything and run nothing
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["pytest", "tests.graph.killable"])


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


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def options(request):
    return {"rounds": 2, "asynchronous": request.param}


@pytest.fixture
def unbroken(tmp_path, options):
    return run(tmp_path / "unbroken", FIRST, **options)


def once(question, n_rounds):
    return {(name, number, question): 1 for name in killable.NAMES for number in range(n_rounds)}


def unanswered(folder):
    """Returns how often each agent was asked without an answer."""
    asked, said = killable.calls(folder)
    return asked - said


def kill_points(n_writes, asynchronous):
    """Every write; where the graph runs asynchronously every fourth from the last, as the writes are the same."""
    return range(n_writes, 0, -4 if asynchronous else -1)


def same(result, unbroken):
    """Whether all is the same but the number of writes, which the process before the kill had a part in."""
    return {**result, "n_writes": 0} == {**unbroken, "n_writes": 0}


def test_killed_after_any_write_it_resumes_to_the_same_decision_and_samples_nothing_twice(tmp_path, options, unbroken):
    n_writes = unbroken["n_writes"]
    assert n_writes >= 15 + 11  # the writes of 15 nodes, and the checkpoints of 11 steps
    for k in kill_points(n_writes, options["asynchronous"]):
        folder = tmp_path / str(k)
        assert run(folder, FIRST, dies_after=k, **options) is None
        cut_off = unanswered(folder)
        assert same(run(folder, None, **options), unbroken), f"killed after write {k} of {n_writes}"
        said = killable.calls(folder)[1]
        assert said == once("First?", options["rounds"]), f"killed after write {k} of {n_writes}"
        # calls that the kill cut off are made again, and no others: none to all three, as a write may come late
        assert unanswered(folder) == cut_off, f"killed after write {k} of {n_writes}"


def test_killed_after_every_write_it_still_ends(tmp_path, options, unbroken):
    result, given, n_kills = None, FIRST, 0
    while result is None:
        result = run(tmp_path, given, dies_after=1, **options)
        given, n_kills = None, n_kills + 1
        assert n_kills <= unbroken["n_writes"] + 1
    assert same(result, unbroken)
    assert killable.calls(tmp_path)[1] == once("First?", options["rounds"])


@pytest.mark.parametrize(("cut", "asked_again"), [("a", "abc"), ("b", "bc"), ("c", "c")])
def test_an_agent_that_had_finished_is_not_asked_again(tmp_path, options, unbroken, cut, asked_again):
    assert run(tmp_path, FIRST, dies_in=cut, **options) is None
    asked, said = killable.calls(tmp_path)
    # all were asked at once; those before the one that was cut off in its call had answered
    assert set(asked) == {(name, 0, "First?") for name in "abc"}
    assert set(said) == {(name, 0, "First?") for name in "abc" if name not in asked_again}
    assert same(run(tmp_path, None, **options), unbroken)
    asked, said = killable.calls(tmp_path)
    assert said == once("First?", options["rounds"])
    assert {name: asked[name, 0, "First?"] for name in "abc"} == {n: 1 + (n in asked_again) for n in "abc"}


@pytest.mark.parametrize(
    "second", [{"question": "Second?"}, {"messages": [("user", "Second?")]}], ids=["question", "turn"]
)
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_another_question_after_the_kill_has_nothing_of_the_first(tmp_path, asynchronous, second):
    n_writes = run(tmp_path / "first", FIRST, asynchronous=asynchronous)["n_writes"]
    alone = run(tmp_path / "second", second, asynchronous=asynchronous)
    for k in kill_points(n_writes, asynchronous):
        folder = tmp_path / str(k)
        assert run(folder, FIRST, dies_after=k, asynchronous=asynchronous) is None
        result = run(folder, second, asynchronous=asynchronous)
        for part in ("decision", "responses", "labels"):
            assert result[part] == alone[part], f"killed after write {k}"
        assert result["messages"][-2:] == alone["messages"], f"killed after write {k}"
        said = killable.calls(folder)[1]
        assert {call: n for call, n in said.items() if call[2] == "Second?"} == once("Second?", 1)
        (seen,) = killable.conversations(folder, "Second?")
        # a turn of the conversation shows the turns before it, and only it; an answer comes with the last write but one
        before = ["", "First? | ", "First? | First? 0 | "] if "messages" in second else [""]
        assert seen in [f"{former}Second?" for former in before]
