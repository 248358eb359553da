import pytest

from tools.size import BUDGET, measure_size


@pytest.mark.parametrize("what", BUDGET)
def test_the_house_keeps_its_budget(what):
    found = measure_size().totals[what]
    advice = "say a thing once, or leave it out; `make size BEFORE=REVISION` says what grew"
    assert BUDGET[what] / 2 < found <= BUDGET[what], advice
