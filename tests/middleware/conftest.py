import pytest

from tests.middleware.agents import Bank


@pytest.fixture
def bank():
    return Bank()
