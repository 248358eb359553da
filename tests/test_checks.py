import math
import re
from functools import partial

import numpy as np
import pytest

from coe_agents import checks

SHARE = partial(checks.share, where='"rate"', advice="Pass 0.5")
OPEN = partial(checks.number, where='"risk"', above=0, below=1, advice="Pass 0.1")
LOW = partial(checks.number, where='"price"', least=0, advice="Pass 1")
NATS = partial(checks.number, where='"max_coe"', least=0, may_be_infinite=True, advice="Pass 1")
COUNT = partial(checks.integer, where='"n" of X', least=1, advice="Pass 3")
FEW = partial(checks.integer, where='"n" of X', least=1, most=9, advice="Pass 3")
FORM = partial(checks.one_of, where='"form"', known=("a", "b"))
NAME = partial(checks.instance, kind=str, where='"name"', what="a string", advice="Write one")
PART = partial(checks.has_method, method="split", where='"part"', advice="Pass another")


@pytest.mark.parametrize(
    ("check", "value", "error", "message"),
    [
        (SHARE, -0.1, ValueError, '"rate" must be a number in [0, 1]; got -0.1. Pass 0.5'),
        (SHARE, "1", TypeError, "\"rate\" must be a number in [0, 1]; got '1'. Pass 0.5"),
        (OPEN, 0.0, ValueError, '"risk" must be a number above 0 and below 1; got 0.0. Pass 0.1'),
        (
            LOW,
            math.inf,
            ValueError,
            '"price" must be a finite number of at least 0; got inf. Pass 1',
        ),
        (LOW, 10**400, ValueError, '"price" must be a finite number of at least 0; got 1000'),
        (NATS, math.nan, ValueError, '"max_coe" must be a number of at least 0; got nan. Pass 1'),
        (COUNT, True, TypeError, '"n" of X must be an integer of at least 1; got True. Pass 3'),
        (FEW, 10, ValueError, '"n" of X must be an integer in [1, 9]; got 10. Pass 3'),
        (FORM, [], ValueError, "one of a, b; got []. Choose one of"),
        (NAME, 1, TypeError, '"name" must be a string; got int. Write one'),
        (
            PART,
            str,
            TypeError,
            '"part" must be an object, not a class; got str. Call it with its arguments',
        ),
    ],
)
def test_an_error_says_where_what_must_hold_what_it_got_and_what_to_do(
    check, value, error, message
):
    with pytest.raises(error, match=re.escape(message)):
        check(value)


def test_what_is_on_a_bound_passes_as_a_plain_number():
    assert SHARE(0) == 0.0
    assert SHARE(np.float32(1)) == 1.0
    assert LOW(0) == 0.0
    assert NATS(math.inf) == math.inf
    assert type(SHARE(1)) is float
    assert type(COUNT(np.int32(1))) is int
    assert COUNT(np.int32(1)) == 1
    assert FEW(9) == 9
    assert checks.one_of(None, "x", (None, "y")) is None


def test_what_is_shown_is_short_and_only_finite_numbers_are_finite():
    assert checks.brief(10**5000) == "a huge number"
    assert [len(checks.brief(each)) <= 80 for each in ("x" * 1000, list(range(1000)))] == [
        True,
        True,
    ]
    assert [checks.is_finite(each) for each in (1, 0.5, np.float64(2))] == [True] * 3
    assert [checks.is_finite(each) for each in (True, "1", None, math.nan, math.inf, 10**400)] == [
        False
    ] * 6
    assert checks.are_finite([1, 2.0])
    assert checks.are_finite(())
    assert not checks.are_finite([1, math.nan])
    assert not checks.are_finite({1: 2})


def test_a_text_is_no_flag():
    assert checks.flag(False, '"content"') is False
    with pytest.raises(TypeError, match="must be True or False; got 'false'"):
        checks.flag("false", '"content"')
