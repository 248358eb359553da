r"""Owns the process that reads mathematics by `math-verify`: a line of JSON in, the answer's canonical value out.

It is a program of its own: `mathematics` starts it, and nothing imports it. Answers are untrusted. LaTeX is parsed by
a grammar, and never by `parse_expr` of SymPy, which runs Python. What takes too much CPU time ends the process, be it
in C code, and the answer has no value: an exception in its place could strike anywhere.
"""

import hashlib
import json
import logging
import signal
import sys
from typing import Any

import sympy
from latex2sympy2_extended.latex2sympy2 import NormalizationConfig
from math_verify import LatexExtractionConfig, parse
from sympy.core.function import AppliedUndef
from sympy.core.relational import Relational

# an ordinary answer takes some .1 s; of a machine that is shared, the time that others took is counted, too
_CPU_SECONDS = 3
_N_POINTS = 3
_DIGITS = 40
_CONFIG = LatexExtractionConfig(
    boxed_match_priority=-1,
    normalization_config=NormalizationConfig(
        basic_latex=True,
        units=False,  # 5 cm is not 5 m
        malformed_operators=True,
        nits=True,
        boxed="none",
        equations=False,
    ),
)


def canonical_value(latex: str) -> str | None:
    """Returns the value of an expression in LaTeX as a text, equal for equal values; None of what is no mathematics."""
    parsed = parse(f"${latex}$", [_CONFIG], fallback_mode="no_fallback", parsing_timeout=None)
    return _key(parsed[0]) if parsed else None


def _key(value: Any) -> str:
    if isinstance(value, Relational):
        return _key_of_relation(value)
    if isinstance(value, sympy.And):
        return _key(value.as_set())  # "1 < x < 2" is (1, 2)
    if value == sympy.S.Reals:
        return "Reals"
    if isinstance(value, sympy.Interval | sympy.Tuple | sympy.MatrixBase):
        parts = value.flat() if isinstance(value, sympy.MatrixBase) else value.args
        keys = [_key(part) for part in parts]
        return f"{type(value).__name__}{getattr(value, 'shape', '')}{keys}"
    if isinstance(value, sympy.Set):
        # "x < 1 or x > 2" is read as a list
        kind = "" if isinstance(value, sympy.FiniteSet | sympy.Union) else type(value).__name__
        return f"{kind}{sorted(_keys_of_members(value))}"
    if value in (sympy.true, sympy.false):  # whether an end of an interval is open
        return str(value)
    return _key_of_expression(value)


def _keys_of_members(members: sympy.Set) -> set[str]:
    """The values of a set; of equations with several unknowns each with its own: "x=1, y=2" is not "x=2, y=1"."""
    is_system = len({frozenset(part.free_symbols) for part in members.args}) > 1
    keys = set()
    for part in members.args:
        is_named = is_system and isinstance(part, sympy.Eq)
        unknown = sorted(map(str, part.free_symbols)) if is_named else ""
        keys.add(f"{unknown}{_key(part)}")
    return keys


def _key_of_relation(relation: Any) -> str:
    """The value of "x = 5" is 5, that of "x > 5" the interval; other relations keep their sides together."""
    left, right = relation.lhs, relation.rhs
    if isinstance(relation, sympy.Eq):
        if isinstance(left, sympy.Symbol | AppliedUndef) and not right.has(left):
            return _key(right)
        if isinstance(right, sympy.Symbol) and not left.has(right):
            return _key(left)
    elif len(relation.free_symbols) == 1:
        return _key(relation.as_set())
    return f"{relation.rel_op}{_key(left - right)}"


def _key_of_expression(expression: Any) -> str:
    """Two expressions are equal if they are at fixed points, which depend on the names of the symbols alone."""
    expression = sympy.nsimplify(expression.doit(), rational=True)
    values = {_key_of_number(_at_point(expression, point)) for point in range(_N_POINTS)}
    return values.pop() if len(values) == 1 else str(sorted(values))


def _at_point(expression: Any, point: int) -> Any:
    place = {}
    for symbol in expression.free_symbols:
        digest = hashlib.sha256(f"{symbol.name} {point}".encode()).hexdigest()
        numerator = int(digest[:8], 16)
        # every other point is negative
        sign = (-1) ** point
        place[symbol] = sympy.Rational(numerator, sign * 2**30)
    return expression.subs(place)


def _key_of_number(number: Any) -> str:
    """An integer exactly, any other number to 15 digits; a ValueError or TypeError for what is no number."""
    if number.is_Integer or number.is_infinite:
        return str(number)
    parts = []
    for part in number.evalf(_DIGITS).as_real_imag():
        value = float(part) if abs(part) > 1e-30 else 0
        parts.append(f"{value:.15g}")
    real, imaginary = parts
    return real if imaginary == "0" else f"{real}+i{imaginary}"


def _limit(seconds: float) -> None:
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)  # without a handler it ends the process


def main() -> None:
    """Answers each line, a text in JSON, with its canonical value or null."""
    logging.disable(logging.CRITICAL)
    canonical_value(r"\frac{x^2}{2} + \sqrt{3}")  # what is slow is loaded before the first answer
    for line in sys.stdin:
        _limit(_CPU_SECONDS)
        try:
            value = canonical_value(json.loads(line))
        except Exception:  # of an answer that is no mathematics, anything
            value = None
        _limit(0)
        sys.stdout.write(json.dumps(value) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
