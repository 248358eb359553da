"""What hypothesis draws for the tests of `coe_agents.uncertainty`."""

import numpy as np
from hypothesis import strategies as st

# zeros, ties, deltas and probabilities that underflow in a product are what breaks entropies
masses = st.one_of(st.integers(0, 6).map(float), st.sampled_from([1e-9, 1e-200, 5e-324, 0.1, 0.7]))


def row(n, elements=masses):
    drawn = st.lists(elements, min_size=n, max_size=n).map(np.array)
    return drawn.filter(lambda values: values.sum() > 0.01).map(lambda values: values / values.sum())


@st.composite
def groups(draw, *, min_agents=1, min_clusters=1, positive_weights=False):
    """Draws (distributions, weights) of one question."""
    n_agents, n_clusters = draw(st.integers(min_agents, 4)), draw(st.integers(min_clusters, 5))
    distributions = np.array([draw(row(n_clusters)) for _ in range(n_agents)])
    return distributions, draw(row(n_agents, st.integers(int(positive_weights), 5).map(float)))
