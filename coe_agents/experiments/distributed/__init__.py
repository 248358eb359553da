"""Owns running on several machines: sampling on a Ray cluster. Only this package imports Ray.

The driver cuts the work into parts as actors take them, and writes each finished part as one Parquet file. So no disk
is shared, and a part is there whole or not at all, whichever process is killed. It uses Ray's actors, not Ray Data,
which holds references to its whole input for as long as it runs.
"""

from coe_agents.experiments.distributed.cluster import Pool, cluster, n_nodes
from coe_agents.experiments.distributed.sampling import SampleParts, sample

__all__ = ["Pool", "SampleParts", "cluster", "n_nodes", "sample"]
