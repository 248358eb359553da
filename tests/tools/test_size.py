import pytest

from tools.size import BUDGET, count, measure_size


@pytest.mark.slow  # seconds of CPU: `python -m tools.size` shows the same
def test_the_house_keeps_its_budget():
    totals = measure_size().totals
    over = {what: totals[what] for what, most in BUDGET.items() if totals[what] > most}
    assert not over, "say a thing once, or leave it out; `make size BEFORE=REVISION` says what grew"


@pytest.mark.parametrize(
    ("source", "what", "expected"),
    [
        ("x = 1  # a comment\n", "tokens", 3),
        (
            '"""Of the module."""\n\n\ndef f():\n    """Of the function."""\n    return 1\n',
            "tokens",
            7,
        ),
        (
            '"""Of the module."""\n\n\ndef f():\n    """Of the function."""\n    return 1\n',
            "code lines",
            2,
        ),
        # start, "a ", {, b, }, " c", end
        ('f"a {b} c"\n', "tokens", 7),
        # start, {, b, !, r, :, >, {, n, }, }, end
        ('f"{b!r:>{n}}"\n', "tokens", 12),
        ("x = [a for a in [b for b in c]]\n", "comprehensions", 2),
        ("x = [a for a in [b for b in c]]\n", "nested comprehensions", 1),
        ("x = 1 if a else 2 if b else 3\n", "conditional expressions", 2),
        ("x = 1 if a else 2 if b else 3\n", "nested conditional expressions", 1),
        ("a, b, c = 1, 2, 3\nd, e = 1, 2\nf, g, h = i\n", "assignments of three", 1),
        ("def f():\n" + "    a()\n" * 59, "long functions", 0),
        ("def f():\n" + "    a()\n" * 60, "long functions", 1),
        ("def f(a, b, c, d, e, f, /, g, h, i, j, k, *, l): ...\n", "wide functions", 0),
        ("def f(a, b, c, d, e, f, /, g, h, i, j, k, *, l, m): ...\n", "wide functions", 1),
    ],
)
def test_each_thing_is_counted(source, what, expected):
    assert count(source)[what] == expected
