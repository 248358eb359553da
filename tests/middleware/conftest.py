from secrets import token_bytes

import pytest

from coe_agents.middleware import marks
from tests.middleware.agents import Bank


@pytest.fixture
def bank():
    return Bank()


@pytest.fixture
def other_process(monkeypatch):
    """Continues as a process that shares no secret with the one before, and knows nothing of it."""

    def begin():
        monkeypatch.setattr(marks, "_DRAWN", token_bytes(32))

    return begin
