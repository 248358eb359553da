"""Owns the order in which agents and clusters enter random draws: it depends only on the responses."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from coe_agents.uncertainty._checks import FloatArray, IntArray


def canonical_order(masses: FloatArray, traits: Sequence[tuple[Any, ...]]) -> tuple[IntArray, IntArray]:
    """Returns the agents and the clusters in order, so that equal seeds draw the same in any order of both.

    Clusters are ordered by their columns of masses, each sorted, then by their number; agents by their rows of masses
    over the clusters so ordered, then by their traits. So the order of the agents changes nothing at all, and the
    numbering of the clusters nothing, unless several clusters hold the same masses, of agents that differ.

    Args:
        masses: Shape `(n_agents, n_clusters)`: what each agent's responses in a cluster weigh together.
        traits: Of each agent: all else in which agents may differ.
    """
    clusters = np.lexsort(np.sort(masses, axis=0))
    rows = masses[:, clusters].tolist()
    agents = sorted(range(len(rows)), key=lambda agent: (rows[agent], traits[agent]))
    return np.array(agents), clusters
