"""Runs a Ray cluster of two machines on loopback for whoever starts it; each line on standard input is an order."""

import os
import sys

os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # loopback only
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

from ray.cluster_utils import Cluster

MACHINE = {"num_cpus": 1, "node_ip_address": "127.0.0.1", "object_store_memory": 80_000_000}


def main() -> None:
    cluster = Cluster(initialize_head=True, head_node_args={**MACHINE, "include_dashboard": False})
    try:
        machine = cluster.add_node(**MACHINE)
        print(cluster.address, flush=True)
        for order in sys.stdin:
            if order == "lose\n":
                cluster.remove_node(machine, allow_graceful=False)
            else:
                machine = cluster.add_node(**MACHINE)
            print("done", flush=True)
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main()
