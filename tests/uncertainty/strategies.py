import numpy as np
from hypothesis import strategies as st

# zeros, ties, deltas and probabilities that underflow in a product are what breaks entropies
masses = st.one_of(st.integers(0, 6).map(float), st.sampled_from([1e-9, 1e-200, 5e-324, 0.1, 0.7]))


def row(n, elements=masses):
    drawn = st.lists(elements, min_size=n, max_size=n).map(np.array)
    return drawn.filter(lambda values: values.sum() > 0.01).map(
        lambda values: values / values.sum()
    )


@st.composite
def groups(draw, *, min_agents=1, min_clusters=1, positive_weights=False):
    n_agents = draw(st.integers(min_agents, 4))
    n_clusters = draw(st.integers(min_clusters, 5))
    distributions = np.array([draw(row(n_clusters)) for _ in range(n_agents)])
    return distributions, draw(row(n_agents, st.integers(int(positive_weights), 5).map(float)))


@st.composite
def questions(draw):
    """Draws (labels, agents, log-probabilities or None, weights) of one question's responses."""
    n_agents = draw(st.integers(1, 4))
    agents = np.repeat(
        np.arange(n_agents), draw(st.lists(st.integers(1, 4), min_size=n_agents, max_size=n_agents))
    )
    labels = np.array(draw(st.lists(st.integers(0, 3), min_size=agents.size, max_size=agents.size)))
    log = st.sampled_from([0.0, -0.1, -0.7, -3.0, -900.0])
    logs = draw(st.none() | st.lists(log, min_size=agents.size, max_size=agents.size))
    weights = draw(row(n_agents, st.integers(0, 3).map(float)))
    return labels, agents, None if logs is None else np.array(logs), weights
