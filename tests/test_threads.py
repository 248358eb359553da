import contextvars
import threading

import pytest

from coe_agents._threads import start_call


def test_a_call_keeps_its_context_and_its_error():
    variable = contextvars.ContextVar("variable", default="outer")
    variable.set("inner")
    assert start_call(variable.get).result(60) == "inner"
    start_call(variable.set, "changed").result(60)
    assert variable.get() == "inner"
    with pytest.raises(KeyError):
        start_call(lambda: {}["x"]).result(60)


def test_a_call_that_hangs_holds_no_other_call_up():
    done = threading.Event()
    hanging = [start_call(done.wait) for _ in range(50)]
    assert start_call(lambda: 1).result(60) == 1
    done.set()
    assert all(call.result(60) for call in hanging)
    assert start_call(lambda: threading.current_thread().daemon).result(60)
