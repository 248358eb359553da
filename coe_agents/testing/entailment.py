"""Owns what every `EntailmentModel` must do, as a suite of tests."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from coe_agents.clustering import ENTAILMENT_LABELS, EntailmentModel
from coe_agents.testing.expectations import ODD_TEXTS, expect, from_threads

_ENTAILMENT = ENTAILMENT_LABELS.index("entailment")
_Pair = tuple[str, str]


class EntailmentModelContract:
    """Tests of an `EntailmentModel`. Derive from it, and override `create_model`.

    Attributes:
        entailed: Pairs of which the model must say entailment.
        not_entailed: Pairs of which it must say something else; they find columns in the wrong order.
        tolerance: How far two rows of the same pair may lie apart.

    Example:
        >>> from coe_agents.testing import TableEntailment
        >>> class TestMyTable(EntailmentModelContract):
        ...     def create_model(self):
        ...         return TableEntailment(dict.fromkeys(self.entailed, "entailment"), default="contradiction")
        >>> TestMyTable().test_obvious_pairs_are_judged_right()
    """

    entailed: Sequence[_Pair] = (
        ("What is the capital of France? It is Paris.", "What is the capital of France? Paris"),
    )
    not_entailed: Sequence[_Pair] = (
        ("What is the capital of France? Paris", "What is the capital of France? It is Lyon."),
    )
    tolerance: float = 1e-3

    def create_model(self) -> EntailmentModel:
        """Returns the model to test; called once for each test."""
        raise NotImplementedError('override "create_model" and return your entailment model')

    def test_it_is_an_entailment_model(self) -> None:
        model = self.create_model()
        expect(isinstance(model, EntailmentModel), f'{type(model).__name__} must have a method "predict(pairs)"')

    def test_each_row_is_a_distribution_over_the_labels(self) -> None:
        for count in (1, 2, 7):
            self._rows((self._pairs() * count)[:count])

    def test_a_pair_has_the_same_row_whatever_is_asked_beside_it(self) -> None:
        pairs = self._pairs()
        alone = np.concatenate([self._rows([pair]) for pair in pairs])
        self._expect_close(
            self._rows(pairs), alone, "a pair's row must not depend on the other pairs, nor on their order"
        )
        self._expect_close(self._rows(pairs[::-1])[::-1], alone, "row i must belong to pair i")

    def test_a_pair_asked_twice_has_two_equal_rows(self) -> None:
        pairs = self._pairs()
        rows = self._rows([*pairs, *pairs])
        self._expect_close(rows[: len(pairs)], rows[len(pairs) :], "equal pairs must have equal rows")

    def test_obvious_pairs_are_judged_right(self) -> None:
        for pair, row in zip(self.entailed, self._rows(self.entailed), strict=True):
            expect(row.argmax() == _ENTAILMENT, f"{pair} is an entailment; the row is {row}, {_ORDER}")
        for pair, row in zip(self.not_entailed, self._rows(self.not_entailed), strict=True):
            expect(row.argmax() != _ENTAILMENT, f"{pair} is not an entailment; the row is {row}, {_ORDER}")

    def test_odd_texts_have_rows_too(self) -> None:
        self._rows([(text, "Paris") for text in ODD_TEXTS] + [("Paris", text) for text in ODD_TEXTS])

    def test_the_pairs_are_not_changed_and_may_be_any_sequence(self) -> None:
        pairs = self._pairs()
        given = list(pairs)
        rows = self._rows(given)
        expect(given == pairs, '"predict" must not change the pairs that it is given')
        self._expect_close(self._rows(tuple(pairs)), rows, "a tuple of pairs must have the rows of a list")

    def test_threads_may_share_it(self) -> None:
        model, pairs = self.create_model(), self._pairs()
        expected = _checked(model.predict(pairs), len(pairs))
        for rows in from_threads(lambda: model.predict(pairs)):
            self._expect_close(_checked(rows, len(pairs)), expected, "rows must be the same from several threads")

    def _pairs(self) -> list[_Pair]:
        return [*self.entailed, *self.not_entailed]

    def _rows(self, pairs: Sequence[_Pair]) -> NDArray[np.float64]:
        return _checked(self.create_model().predict(pairs), len(pairs))

    def _expect_close(self, rows: NDArray[np.float64], others: NDArray[np.float64], must: str) -> None:
        off = float(np.abs(rows - others).max())
        expect(off <= self.tolerance, f"{must}; rows differ by {off:.2g}, and {self.tolerance:.2g} is allowed")


_ORDER = f"in the order {', '.join(ENTAILMENT_LABELS)}"


def _checked(returned: object, n_pairs: int) -> NDArray[np.float64]:
    rows = np.asarray(returned)
    expect(rows.dtype.kind == "f", f'"predict" must return floats; it returned {rows.dtype}')
    wanted = (n_pairs, len(ENTAILMENT_LABELS))
    expect(rows.shape == wanted, f'"predict" must return shape {wanted} for {n_pairs} pairs; got {rows.shape}')
    expect(np.isfinite(rows).all(), f'"predict" must return finite numbers; got {rows}')
    sums = rows.sum(axis=1)
    expect((rows >= 0).all() and (np.abs(sums - 1) <= 1e-3).all(), f"rows must be at least 0 and sum to 1; got {rows}")
    return rows.astype(np.float64)
