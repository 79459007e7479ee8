"""What takes part in ``bench peers``: one file for each library."""

from __future__ import annotations

from farwrite_bench.peers.adapters import (
    farwrite_cpp,
    farwrite_python,
    gloo,
    grpc,
    mooncake,
    nixl,
    openmpi,
    ray,
    shared_memory,
    ucx,
    zmq,
)
from farwrite_bench.peers.peer import Peer

PEERS: tuple[Peer, ...] = (
    farwrite_cpp.LIMIT_PEER,
    farwrite_cpp.PEER,
    ucx.PEER,
    farwrite_python.PEER,
    openmpi.PEER,
    nixl.PEER,
    mooncake.PEER,
    shared_memory.PEER,
    zmq.PEER,
    gloo.PEER,
    grpc.PEER,
    ray.PEER,
)
"""The raw loop, Farwrite from two languages, and the others, in the order of their turns."""
