"""Owns the checks of single arguments: what passes is returned, and what does not is refused with what to do.

Each error has four parts: where the value stands, what it must be, what it is, and the advice. `where` is written as
the message has it: the argument in quotes, with what it belongs to, such as '"growth" of Resample'. The argument is the
`field` of the error, so that a configuration need not read the message. Arrays are checked by `coe_agents.uncertainty`.
"""

import math
import re
import reprlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

_T = TypeVar("_T")
_Error = TypeVar("_Error", bound=Exception)
_ARGUMENT = re.compile(r'"(\w+)"')


def at_field(error: _Error, field: str) -> _Error:
    """Returns an error about an argument, with the name of the argument as its `field`."""
    marked: Any = error
    marked.field = field
    return error


def _refusal(kind: type[_Error], where: str, wrong: str, advice: str) -> _Error:
    """Returns the error that something is wrong with an argument, which the quotes at the beginning of `where` name."""
    error = kind(f"{where} {wrong}. {advice}")
    argument = _ARGUMENT.match(where)
    return error if argument is None else at_field(error, argument[1])


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a number of any type, and not True or False.

    Example:
        >>> [is_number(value) for value in (1, 0.5, float("nan"), True, "1")]
        [True, True, True, False, False]
    """
    return isinstance(value, Real) and not isinstance(value, bool)


def is_finite(value: object) -> TypeGuard[float]:
    """Whether a value is a number that a float can hold, and neither NaN nor infinite."""
    try:
        return is_number(value) and math.isfinite(value)
    except OverflowError:  # an integer beyond all floats
        return False


def are_finite(values: object) -> bool:
    """Whether `values` is a list or tuple of finite numbers."""
    return isinstance(values, list | tuple) and all(is_finite(value) for value in values)


def number(
    value: object,
    where: str,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
    may_be_infinite: bool = False,
    advice: str = "Pass a number",
) -> float:
    """Returns a number within bounds as a float; NaN is always refused, and so is what no float can hold.

    Args:
        value: What was given.
        where: The argument, as the message names it.
        least: The lowest allowed number.
        above: A number that it must exceed.
        most: The highest allowed number.
        below: A number that it must stay under.
        may_be_infinite: Whether infinity passes, too.
        advice: What to do instead.

    Raises:
        TypeError: It is no number, such as the text "2" or True.
        ValueError: It is out of bounds.

    Example:
        >>> number(1, '"risk"', above=0, below=1, advice="Pass a share such as 0.1")
        Traceback (most recent call last):
        ...
        ValueError: "risk" must be a number above 0 and below 1; got 1. Pass a share such as 0.1
    """
    if is_finite(value) or (
        may_be_infinite and is_number(value) and value in (math.inf, -math.inf)
    ):
        is_low = (least is not None and value < least) or (above is not None and value <= above)
        is_high = (most is not None and value > most) or (below is not None and value >= below)
        if not is_low and not is_high:
            return float(value)
    is_bounded = may_be_infinite or most is not None or below is not None
    kind = "a number" if is_bounded else "a finite number"
    bounds = _in_words(least, most, above=above, below=below)
    error = ValueError if is_number(value) else TypeError
    raise _refusal(error, where, f"must be {kind}{bounds}; got {brief(value)}", advice)


def integer(
    value: object,
    where: str,
    *,
    least: int | None = None,
    most: int | None = None,
    advice: str = "Pass an integer",
) -> int:
    """Returns an integer of any type within bounds, as `number` does; 2.0 is refused.

    Raises:
        TypeError: It is no integer.
        ValueError: It is out of bounds.

    Example:
        >>> integer(0, '"most" of Debate', least=1, advice="8 keep the prompt short")
        Traceback (most recent call last):
        ...
        ValueError: "most" of Debate must be an integer of at least 1; got 0. 8 keep the prompt short
    """
    is_integer = is_number(value) and isinstance(value, Integral)
    if (
        is_integer
        and is_finite(value)
        and (least is None or value >= least)
        and (most is None or value <= most)
    ):
        return int(value)
    error = ValueError if is_integer else TypeError
    bounds = _in_words(least, most)
    raise _refusal(error, where, f"must be an integer{bounds}; got {brief(value)}", advice)


def share(value: object, where: str, *, advice: str) -> float:
    """Returns a number in [0, 1] as a float; raises as `number` does."""
    return number(value, where, least=0, most=1, advice=advice)


def one_of(
    value: _T, where: str, known: Iterable[object], *, advice: str = "Choose one of them"
) -> _T:
    """Returns a value that is among the known ones; a ValueError lists them."""
    names = list(known)
    require(value in names, f"{where} must be one of {', '.join(map(str, names))}", value, advice)
    return value


def instance(value: object, kind: type, where: str, *, what: str, advice: str) -> None:
    """Raises, where a value is not of the type, a TypeError: what it must be, and of which type it is."""
    if not isinstance(value, kind):
        raise _refusal(TypeError, where, f"must be {what}; got {type(value).__name__}", advice)


def flag(value: object, where: str) -> bool:
    """Returns a value that is True or False; a text that says so is neither."""
    if not isinstance(value, bool):
        wrong = f"must be True or False; got {brief(value)}"
        raise _refusal(TypeError, where, wrong, "A text is always true: write it without quotes")
    return value


def to_path(value: object, where: str) -> Path:
    """Returns a path that is given as one or as a text; raises a TypeError for anything else."""
    if not isinstance(value, str | Path):
        wrong = f"must be a path; got {type(value).__name__}"
        raise _refusal(TypeError, where, wrong, 'Pass "folder/name" or a pathlib.Path')
    return Path(value)


def several(value: object, where: str, *, of: str, advice: str, kind: type = Sequence) -> None:
    """Refuses, by a TypeError, what is no sequence, and a single text or mapping where several things belong."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, kind):
        wrong = f"must be a sequence of {of}; got {type(value).__name__}"
        raise _refusal(TypeError, where, wrong, advice)


def has_method(value: object, method: str, where: str, *, advice: str) -> None:
    """Refuses, by a TypeError, a class, and an object that cannot be called by this method."""
    if isinstance(value, type):
        wrong = f"must be an object, not a class; got {value.__name__}"
        raise _refusal(TypeError, where, wrong, "Call it with its arguments")
    if not callable(getattr(value, method, None)):
        wrong = f'must have the method "{method}"; got {brief(value)}'
        raise _refusal(TypeError, where, wrong, advice)


def require(holds: bool, must: str, value: object, advice: str) -> None:
    """Raises a ValueError that says what must hold, the value for which it does not, and what to do; else nothing.

    Like `where`, what must hold begins with the argument in quotes.
    """
    if not holds:
        raise _refusal(ValueError, f"{must};", f"got {brief(value)}", advice)


def brief(value: object) -> str:
    """Returns a short form of any value; an integer of thousands of digits has no `repr`."""
    try:
        return _SHORT.repr(value)
    except ValueError:
        return "a huge number"


def _in_words(
    least: float | None,
    most: float | None,
    *,
    above: float | None = None,
    below: float | None = None,
) -> str:
    if least is not None and most is not None:
        return f" in [{least:.10g}, {most:.10g}]"
    bounds = (("of at least", least), ("above", above), ("at most", most), ("below", below))
    said = " and ".join(f"{word} {bound:.10g}" for word, bound in bounds if bound is not None)
    return f" {said}" if said else ""


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80


def on_repeated(models: Sequence[object]) -> str | None:
    """Returns a line on names of models that stand there more than once; None where none does."""
    counts = Counter(model for model in models if isinstance(model, str))
    repeated = [name for name, n in counts.items() if n > 1]
    if not repeated:
        return None
    names = ", ".join(repeated)
    return (
        f"{names} is named more than once: that is one model with more responses, not a second view. "
        "Name another model"
    )
