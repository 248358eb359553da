"""Owns the rules that say when two values of an argument are equal."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from coe_agents._removed import refuses_removed
from coe_agents.actions.canonical import to_line
from coe_agents.checks import is_number, number
from coe_agents.clustering import Clusterer, cluster_responses
from coe_agents.clustering.protocols import by_first_appearance

Equalities = npt.NDArray[np.bool_]
_MOST_ZEROS = 4300
"""A `Decimal` with more is compared exactly: written out, it may fill the memory."""
_FINAL_STOPS = re.compile(r"""(?<=[\w%)\]}"'”’»])\.+$""")
DECIMAL = "$decimal"
"""The field of the object that stands for a `Decimal` in a parsed value."""


@runtime_checkable
class Rule(Protocol):
    """Says which values of an argument are equal."""

    def compare(self, values: Sequence[Any], question: str) -> Equalities:
        """Returns whether value i equals value j, shape `(n_values, n_values)`, symmetric, true on the diagonal.

        Args:
            values: Canonical JSON values (see `canonical_action`), all different.
            question: What was asked.
        """
        ...


@dataclass(frozen=True, slots=True)
class Exact:
    """Equal where the canonical forms are; the rule of arguments without another one."""

    def compare(self, values: Sequence[Any], question: str) -> Equalities:
        return _same([to_line(value) for value in values])


@dataclass(frozen=True, slots=True)
class Ignore:
    """All values are equal: the argument does not matter."""

    def compare(self, values: Sequence[Any], question: str) -> Equalities:
        return np.ones((len(values), len(values)), dtype=np.bool_)


@dataclass(frozen=True, slots=True)
class AnyOrder:
    """Arrays are equal if they have the same items, each as often; other values as in `Exact`."""

    def compare(self, values: Sequence[Any], question: str) -> Equalities:
        keys = []
        for value in values:
            in_order = value
            if isinstance(value, list):
                in_order = sorted(value, key=to_line)
            keys.append(to_line(in_order))
        return _same(keys)


@refuses_removed
@dataclass(frozen=True, slots=True, kw_only=True)
class Within:
    """Numbers are equal if |a - b| <= max(absolute, relative * max(|a|, |b|)); other values as in `Exact`.

    It is not transitive: 1.0 may equal 1.1, and 1.1 equal 1.2, but 1.0 not 1.2. A `Decimal` that a tool's parser made
    is compared with others, if it has at most 4,300 zeros.

    Args:
        absolute: The tolerance in the argument's own unit, at least 0.
        relative: The tolerance as a share, at least 0.

    Raises:
        ValueError: A tolerance is negative or not finite.

    Example:
        >>> Within(absolute=0.01).compare([5, 5.01, 6], "")[0].tolist()
        [True, True, False]
    """

    absolute: float = 0.0
    relative: float = 0.0

    def __post_init__(self) -> None:
        for name in ("absolute", "relative"):
            number(getattr(self, name), f'"{name}"', least=0, advice="Omit it for 0")

    def compare(self, values: Sequence[Any], question: str) -> Equalities:
        equal = Exact().compare(values, question)
        numbers = list(map(_to_number, values))
        for i, a in enumerate(numbers):
            for j, b in enumerate(numbers):
                if a is None or b is None:
                    continue
                # a `Decimal`, which is an object here, is compared with others only
                is_one_kind = isinstance(values[i], dict) is isinstance(values[j], dict)
                if is_one_kind and self._are_close(a, b):
                    equal[i, j] = True
        return equal

    def _are_close(self, a: float | Fraction, b: float | Fraction) -> bool:
        if not isinstance(a, Fraction) and not isinstance(b, Fraction):
            try:
                largest = max(abs(a), abs(b))
                # doubles are off by half of the distance to the next: 5.01 is within 0.01 of 5
                rounding = 2 * math.ulp(largest)
                return abs(a - b) <= max(self.absolute, self.relative * largest) + rounding
            except OverflowError:  # an integer that no double holds
                pass
        a = Fraction(a)
        b = Fraction(b)
        # as they are written: 0.1 is a tenth
        absolute = Fraction(repr(self.absolute))
        relative = Fraction(repr(self.relative))
        return abs(a - b) <= max(absolute, relative * max(abs(a), abs(b)))


@dataclass(frozen=True, slots=True)
class Text:
    """Texts are equal but for case, white space and the full stops that end them; other values as in `Exact`.

    Nothing else is merged: "x != 5" is not "x = 5". A full stop ends a text behind a word, a percent sign, a closing
    bracket or a quotation mark: "a/.." is not "a/". Of two letters that are no cases of each other, neither is the
    other one: "Maße" is not "Masse".

    Example:
        >>> Text().compare(["Ann  Smith", "ann smith.", "Ann-Smith"], "")[0].tolist()
        [True, True, False]
    """

    def compare(self, values: Sequence[Any], question: str) -> Equalities:
        keys = list[Any]()
        for value in values:
            if isinstance(value, str):
                # in a tuple, so that it equals the line of no other value
                keys.append((_without_case(value),))
            else:
                keys.append(to_line(value))
        return _same(keys)


@refuses_removed
@dataclass(frozen=True, slots=True)
class Meaning:
    """Texts are equal if a clusterer places them in one cluster; other values as in `Exact`.

    Args:
        clusterer: For example `BidirectionalEntailment`. It sees the texts as they were proposed.
    """

    clusterer: Clusterer

    def compare(self, values: Sequence[Any], question: str) -> Equalities:
        equal = Exact().compare(values, question)
        places = [place for place, value in enumerate(values) if isinstance(value, str)]
        texts = [values[place] for place in places]
        labels = cluster_responses(texts, question=question, clusterer=self.clusterer)
        equal[np.ix_(places, places)] |= _same(labels)
        return equal


def _same(keys: Sequence[Any]) -> Equalities:
    """Returns whether key i is key j, shape `(n_keys, n_keys)`."""
    labels = np.array(by_first_appearance(keys), dtype=np.int64)
    return np.equal.outer(labels, labels)


def _to_number(value: Any) -> float | Fraction | None:
    """Returns a number, also one that a tool's parser made a `Decimal`; None of anything else."""
    if isinstance(value, dict) and value.keys() == {DECIMAL}:
        written = re.fullmatch(r"-?[0-9]{1,4300}E(-?[0-9]{1,4})|0", str(value[DECIMAL]))
        if written is None or abs(int(written[1] or 0)) > _MOST_ZEROS:
            return None
        return Fraction(written[0])
    return value if is_number(value) else None


def _without_case(text: str) -> str:
    """Returns a text as `Text` compares it."""
    # not by `casefold`, which makes "ss" of "ß"
    words = text.lower().split()
    return _FINAL_STOPS.sub("", " ".join(words))
