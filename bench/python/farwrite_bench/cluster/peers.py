"""The addresses at which the tasks of rpc-over-fabric find each other's devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from farwrite_bench.cluster.process import free_addresses
from farwrite_bench.cluster.transport import RPC_OVER_FABRIC, Transport

PEERS = "FARWRITE_BENCH_RPC_PEERS"
"""The variable with a task and an address for each task: ``/job:ps/replica:0/task:0=HOST:PORT``."""


def peers(transport: Transport, cluster: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the variables that `transport` needs in every task of `cluster`.

    Parameters
    ----------
    transport : Transport
        Only `RPC_OVER_FABRIC` needs any.
    cluster : mapping
        The addresses of each job's servers. Devices get other ones.
    """
    if transport.protocol != RPC_OVER_FABRIC.protocol:
        return {}
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
