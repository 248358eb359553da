from tools.size import BUDGET, measure_size


def test_the_house_keeps_its_budget():
    found = measure_size().totals
    over = {what: found[what] for what, most in BUDGET.items() if not most / 2 < found[what] <= most}
    assert not over, "say a thing once, or leave it out; `make size BEFORE=REVISION` says what grew"
