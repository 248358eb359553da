import contextvars
import os
import threading
import time
import weakref

import pytest

from coe_agents import _steps
from coe_agents._steps import start_call
from tests.waiting import wait_until


@pytest.fixture(autouse=True)
def threads(monkeypatch):
    monkeypatch.setattr(_steps, "_THREADS", _steps._Threads())
    monkeypatch.setattr(_steps, "_IDLE", 60.0)
    return _steps._THREADS


def test_a_call_keeps_its_context_and_its_error():
    variable = contextvars.ContextVar("variable", default="outer")
    variable.set("inner")
    assert start_call(variable.get).result(60) == "inner"
    start_call(variable.set, "changed").result(60)
    assert variable.get() == "inner"
    with pytest.raises(KeyError):
        start_call(lambda: {}["x"]).result(60)


def test_a_thread_is_used_again(threads):
    found = set()
    for _ in range(5):
        found.add(start_call(threading.get_ident).result(60))
        wait_until(lambda: threads._n_free == 1)
    assert len(found) == 1


def test_a_call_that_hangs_holds_no_other_call_up(threads):
    done = threading.Event()
    hanging = [start_call(done.wait) for _ in range(50)]
    assert start_call(lambda: 1).result(60) == 1
    done.set()
    assert all(call.result(60) for call in hanging)
    wait_until(lambda: threads._n_free == 51)
    assert start_call(lambda: threading.current_thread().daemon).result(60)


def test_an_idle_thread_ends_and_a_call_that_comes_then_is_made(threads, monkeypatch):
    monkeypatch.setattr(_steps, "_IDLE", 0.01)
    thread = start_call(threading.current_thread).result(60)
    thread.join(60)
    assert not thread.is_alive()
    assert threads._n_free == 0
    assert start_call(lambda: 1).result(60) == 1


def test_calls_that_come_as_threads_end_are_all_made(threads, monkeypatch):
    monkeypatch.setattr(_steps, "_IDLE", 0.0005)
    for number in range(300):
        assert start_call(lambda given: given, number).result(60) == number
        time.sleep(0.0005)
    wait_until(lambda: threads._n_free == 0)


def test_a_thread_that_waits_holds_nothing_of_its_last_call(threads):
    class Held:
        pass

    held = Held()
    reference = weakref.ref(held)
    start_call(lambda given: None, held).result(60)
    del held
    wait_until(lambda: reference() is None)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own(threads):
    start_call(int).result(60)
    wait_until(lambda: threads._n_free == 1)
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if start_call(lambda: 1).result(60) == 1 else 1)
        except BaseException:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
