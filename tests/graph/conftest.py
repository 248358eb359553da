from types import SimpleNamespace

import pytest

from coe_agents.graph import round_state


@pytest.fixture
def clock(monkeypatch):
    """The clocks of the rounds, which go by nothing but what a test adds; `set` is how far off the wall clock is."""
    clock = SimpleNamespace(now=1e9, set=0.0)
    clocks = SimpleNamespace(time=lambda: clock.now + clock.set, monotonic=lambda: clock.now)
    monkeypatch.setattr(round_state, "time", clocks)
    round_state._begun.cache_clear()
    return clock
