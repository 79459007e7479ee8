"""OpenMPI, by mpi4py: sends and posted receives of two ranks over shared memory."""

from __future__ import annotations

import dataclasses
from typing import Any

from farwrite_bench.box.openmpi import HINT, POLLING, find, load_mpi, mpi_ranks
from farwrite_bench.peers.end import PostingEnd, Setup
from farwrite_bench.peers.loop import Bytes
from farwrite_bench.peers.peer import PYTHON, Peer
from farwrite_bench.peers.sides import Site, TwoSides

RECEIVER, SENDER = 0, 1
RANK = "farwrite_bench.peers.mpi_rank"
ZERO_COPY_BYTES = 2**16
"""From here on the kernel copies once, from process to process."""


class _MpiEnd(PostingEnd):
    """A rank."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._mpi = load_mpi()
        self._comm = self._mpi.COMM_WORLD
        self._other = SENDER if setup.receives else RECEIVER

    def post_send(self, payload: Bytes, tag: int) -> Any:
        return self._comm.Isend(payload, self._other, tag)

    def post_receive(self, payload: Bytes, tag: int) -> Any:
        return self._comm.Irecv(payload, self._other, tag)

    def wait(self, request: Any) -> None:
        request.Wait()


def _start(site: Site) -> TwoSides:
    openmpi = dataclasses.replace(find(), options=POLLING)
    ranks = site.stack.enter_context(mpi_ranks(openmpi, 2, site.log("ranks"), RANK))
    sides = site.two_sides(_MpiEnd, ranks)
    sides.settings = f"{openmpi.settings()}; Isend, and Irecv posted ahead"
    return sides


PEER = Peer(
    "openmpi",
    "OpenMPI (mpi4py)",
    PYTHON,
    _start,
    module="mpi4py",
    install=HINT,
    copies=lambda size: 1 if size >= ZERO_COPY_BYTES else 2,
    ahead="its receive is posted before the message comes, and a call of mpi4py is shorter than one"
    " of Farwrite from Python",
)
