"""A Ray cluster of several nodes in processes of this machine, until standard input ends.

`python ray_node.py PORT FOLDER NODES`. `ray start` cannot start several nodes on loopback alone.
"""

import sys

from ray.cluster_utils import Cluster

STORE = 80 * 2**20


def main(port: int, folder: str, nodes: int) -> None:
    small = {"object_store_memory": STORE, "include_log_monitor": False}
    head = {"num_cpus": 0, "gcs_server_port": port, "temp_dir": folder, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args={**small, **head})
    for _ in range(nodes):
        cluster.add_node(num_cpus=1, **small)
    print("ready", flush=True)
    sys.stdin.read()
    cluster.shutdown()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
