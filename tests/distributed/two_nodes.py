"""Runs a Ray cluster of two machines on loopback for whoever starts it; a line on standard input ends the second."""

import os
import sys

os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # loopback only
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

from ray.cluster_utils import Cluster

MACHINE = {"num_cpus": 1, "node_ip_address": "127.0.0.1", "object_store_memory": 80_000_000}


def main() -> None:
    # no processes that nobody asks
    head = {**MACHINE, "include_dashboard": False, "include_log_monitor": False, "no_monitor": True}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        machine = cluster.add_node(**MACHINE)
        print(cluster.address, flush=True)
        for _ in sys.stdin:
            cluster.remove_node(machine, allow_graceful=False)
            print("done", flush=True)
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main()
