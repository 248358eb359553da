import hashlib

import numpy as np
import pytest

from coe_agents.clustering.entailment_wrappers import CachedEntailment, CountingEntailment
from coe_agents.testing.doubles import TableEntailment
from tests.contracts import EntailmentModelContract


class TestCachedEntailment(EntailmentModelContract):
    def create_model(self):
        return CachedEntailment(
            TableEntailment(dict.fromkeys(self.entailed, "entailment"), default="neutral")
        )


class ByHash:
    def predict(self, pairs):
        seeds = [int.from_bytes(hashlib.sha256(repr(pair).encode()).digest()[:8]) for pair in pairs]
        return np.array([np.random.default_rng(seed).dirichlet(np.ones(3)) for seed in seeds])


PAIRS = [
    ("a", "b"),
    ("b", "a"),
    ("a", "c"),
    ("a", "b"),
    ("", "ab"),
    ("a", 'b", "c'),
    ("a\ud800", "ä"),
]


@pytest.fixture
def counting():
    return CountingEntailment(ByHash())


def test_rows_are_the_models_to_the_last_digit_and_each_pair_is_asked_once(counting):
    model = CachedEntailment(counting)
    expected = ByHash().predict(PAIRS)
    for pairs, rows in (
        (PAIRS[:3], expected[:3]),
        (PAIRS, expected),
        (PAIRS[::-1], expected[::-1]),
    ):
        assert np.array_equal(model.predict(pairs), rows)
    assert counting.n_pairs == 6


def test_the_oldest_pairs_go(counting):
    model = CachedEntailment(counting, max_pairs=2)
    for hypothesis in ("x", "y", "z"):
        model.predict([("a", hypothesis)])
    model.predict([("a", "y"), ("a", "z")])
    assert counting.n_pairs == 3
    model.predict([("a", "x")])
    assert counting.n_pairs == 4
    assert model.predict(PAIRS).shape == (7, 3)  # more than it may remember


def test_what_is_no_distribution_is_refused_and_not_kept():
    class Wrong:
        def __init__(self):
            self.rows = [[0.0, np.nan, 1.0]]

        def predict(self, pairs):
            return np.array(self.rows)

    wrong = Wrong()
    model = CachedEntailment(wrong)
    with pytest.raises(ValueError, match="row 0 of Wrong"):
        model.predict([("a", "b")])
    wrong.rows = [[0.0, 0.0, 1.0]]
    assert model.predict([("a", "b")]).tolist() == [[0.0, 0.0, 1.0]]
