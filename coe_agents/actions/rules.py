"""Owns the rules that say when two values of an argument are equal."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from coe_agents.actions.canonical import to_line
from coe_agents.checks import number
from coe_agents.clustering import Clusterer, cluster_responses
from coe_agents.clustering.protocols import by_first_appearance

Equalities = npt.NDArray[np.bool_]


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
        return _same([to_line(sorted(value, key=to_line) if isinstance(value, list) else value) for value in values])


@dataclass(frozen=True, slots=True, kw_only=True)
class Within:
    """Numbers are equal if |a - b| <= max(absolute, relative * max(|a|, |b|)); other values as in `Exact`.

    It is not transitive: 1.0 may equal 1.1, and 1.1 equal 1.2, but 1.0 not 1.2.

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
        numbers = [
            i for i, value in enumerate(values) if isinstance(value, int | float) and not isinstance(value, bool)
        ]
        for i in numbers:
            for j in numbers:
                equal[i, j] |= self._are_close(values[i], values[j])
        return equal

    def _are_close(self, a: float, b: float) -> bool:
        try:
            # rounded as the values are, so that 5.01 is within 0.01 of 5
            return round(abs(a - b) - max(self.absolute, self.relative * max(abs(a), abs(b))), 9) <= 0
        except OverflowError:  # an integer that no double holds
            most = max(Fraction(self.absolute), Fraction(self.relative) * max(abs(Fraction(a)), abs(Fraction(b))))
            return abs(Fraction(a) - Fraction(b)) <= most


@dataclass(frozen=True, slots=True)
class Meaning:
    """Texts are equal if a clusterer places them in one cluster; other values as in `Exact`.

    Args:
        clusterer: For example `BidirectionalEntailment`. It sees the texts in lower case.
    """

    clusterer: Clusterer

    def compare(self, values: Sequence[Any], question: str) -> Equalities:
        equal = Exact().compare(values, question)
        texts = [i for i, value in enumerate(values) if isinstance(value, str)]
        labels = cluster_responses([values[i] for i in texts], question=question, clusterer=self.clusterer)
        equal[np.ix_(texts, texts)] |= _same(labels)
        return equal


def _same(keys: Sequence[Any]) -> Equalities:
    labels = np.array(by_first_appearance(keys), dtype=np.int64)
    return np.equal.outer(labels, labels)
