"""The transport rpc-over-fabric: TensorFlow's requests and replies, over Farwrite's fabrics.

The paper calls it gRPC.RDMA. Its C++ is in `farwrite_experiments.library`.
"""

from __future__ import annotations

from farwrite_bench.cluster.process import free_addresses
from farwrite_bench.cluster.transport import Cluster, Transport

PEERS = "FARWRITE_RPC_OVER_FABRIC_PEERS"
"""The variable with a task and an address for each task: ``/job:ps/replica:0/task:0=HOST:PORT``."""


def peers(cluster: Cluster) -> dict[str, str]:
    """Return the variables that every task of `cluster` needs, to find each other's devices."""
    tasks = [
        f"/job:{job}/replica:0/task:{index}"
        for job, addresses in cluster.items()
        for index in range(len(addresses))
    ]
    taken = {address for addresses in cluster.values() for address in addresses}
    # A server that does not listen yet leaves its port free.
    free = [each for each in free_addresses(len(tasks) + len(taken)) if each not in taken]
    pairs = zip(tasks, free, strict=False)
    return {PEERS: ",".join(f"{task}={address}" for task, address in pairs)}


RPC_OVER_FABRIC = Transport(
    "rpc-over-fabric",
    "RPC over Farwrite's fabric",
    "grpc+rpc-over-fabric",
    module="farwrite_experiments.loaded_library",
    encoded=True,
    variables=peers,
)
"""Requests and replies, through private registered buffers."""
