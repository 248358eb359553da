import pytest

from coe_agents.agents._requests import endpoints
from coe_agents.agents._requests.endpoints import Outage


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(endpoints, "_now", lambda: self.now)


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def test_what_never_failed_is_in_service(clock):
    outage = Outage()
    outage.note_try()
    assert (outage.is_down, outage.is_set_aside) == (False, False)


def test_the_time_doubles_with_each_failure_up_to_a_minute(clock):
    outage, times = Outage(), []
    for _ in range(8):
        began = clock.now
        outage.note_failure()
        while outage.is_set_aside:
            clock.now += 0.5
        times.append(clock.now - began)
    assert times == [1, 2, 4, 8, 16, 32, 60, 60]


def test_many_failures_at_once_are_one(clock):
    outage = Outage()
    for _ in range(100):
        outage.note_failure()
    assert outage.n_failures == 1
    clock.now += 1
    assert (outage.is_down, outage.is_set_aside) == (True, False)


def test_one_request_tries_it_again_and_the_others_stay_away(clock):
    outage = Outage()
    outage.note_failure()
    clock.now += 1
    outage.note_try()
    assert outage.is_set_aside
    clock.now += 1.9
    assert outage.is_set_aside  # nothing has come back yet
    outage.note_failure()
    assert outage.n_failures == 2  # it counted already
    clock.now += 0.1
    assert not outage.is_set_aside


def test_an_answer_ends_it(clock):
    outage = Outage()
    for _ in range(3):
        outage.note_failure()
        clock.now += 60
    outage.note_try()
    outage.note_answer(2)  # to what was asked before it failed
    assert outage.is_down
    outage.note_answer(outage.n_failures)
    assert (outage.is_down, outage.is_set_aside) == (False, False)
    outage.note_failure()
    clock.now += 1
    assert not outage.is_set_aside  # and it starts anew
