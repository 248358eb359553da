from tools.lines import MOST, lines_now


def test_the_package_has_no_more_lines_than_its_budget():
    n_lines = lines_now().total()
    assert 10_000 < n_lines <= MOST, "say a thing once, or leave it out; `make lines BEFORE=REVISION` says what grew"
