"""The workers' side of MPI: how a rank reads the weights of rank 0 and pushes its delta to it."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from farwrite_bench._native import copy
from farwrite_bench.box.emulator import DELTA, Exchange
from farwrite_bench.box.pages import floats

Array = npt.NDArray[np.float32]

ELEMENT = 4
"""Bytes of a float32."""
SERVER = 0
"""Its rank."""
WEIGHTS, DELTAS, DONE = 1, 2, 3
"""Tags of messages."""
NAP_SECONDS = 50e-6
"""Between two looks at requests under way. Waiting inside of MPI would keep a processor busy, and
here more processes wait than there are processors."""
PIECE = 1 << 18
"""Elements of one MPI_Raccumulate. The target is locked for as long as one takes."""


class MpiExchange(Exchange, Protocol):
    """An exchange that all ranks open and close together."""

    def settle(self) -> None:
        """Return when every push has reached the server."""

    def close(self) -> None:
        """Free what the ranks share."""


def load_mpi() -> Any:
    """Import mpi4py, which starts MPI."""
    return importlib.import_module("mpi4py.MPI")


def nap_until_done(request: Any) -> None:
    """Wait for a request without keeping a processor busy."""
    while not request.Test():
        time.sleep(NAP_SECONDS)


class Preposted:
    """Two-sided: the server has posted its sends and receives before this rank posts its own.

    So a receive copies at once out of the server's memory, by CMA and without the server.
    """

    def __init__(self, mpi: Any, elements: int) -> None:
        self._comm = mpi.COMM_WORLD
        self._weights = floats(elements, 0)
        self._delta = floats(elements, DELTA)
        self._comm.Barrier()

    def read(self) -> None:
        """Receive the weights."""
        self._comm.Recv(self._weights, source=SERVER, tag=WEIGHTS)

    def push(self) -> None:
        """Send the delta; the server takes it and adds it."""
        nap_until_done(self._comm.Isend(self._delta, dest=SERVER, tag=DELTAS))

    def settle(self) -> None:
        """Nothing is left to wait for: the server counts the deltas."""

    def close(self) -> None:
        """Part from the other ranks."""
        self._comm.Barrier()


class OneSided:
    """One-sided: MPI_Rget, and MPI_Raccumulate with MPI_SUM, on a window of MPI_Win_allocate."""

    def __init__(self, mpi: Any, elements: int) -> None:
        self._mpi = mpi
        self._comm = mpi.COMM_WORLD
        self._weights = floats(elements, 0)
        self._delta = floats(elements, DELTA)
        self._window = mpi.Win.Allocate(0, ELEMENT, comm=self._comm)
        self._comm.Barrier()
        self._window.Lock_all()

    def read(self) -> None:
        """Get the weights."""
        self._window.Rget(self._weights, SERVER).Wait()

    def push(self) -> None:
        """Accumulate the delta, piece by piece."""
        for start in range(0, self._delta.size, PIECE):
            piece = self._delta[start : start + PIECE]
            target = (start, piece.size, self._mpi.FLOAT)
            self._window.Raccumulate(piece, SERVER, target, op=self._mpi.SUM).Wait()

    def settle(self) -> None:
        """Complete at the server, and report that."""
        self._window.Flush(SERVER)
        nap_until_done(self._comm.Isend(bytearray(1), dest=SERVER, tag=DONE))

    def close(self) -> None:
        """Free the window."""
        self._window.Unlock_all()
        self._comm.Barrier()
        self._window.Free()


class Shared:
    """Memory of MPI_Win_allocate_shared: the weights and the deltas lie where all ranks map them.

    The server adds a delta where it lies, when its rank reports it.
    """

    def __init__(self, mpi: Any, elements: int) -> None:
        self._comm = mpi.COMM_WORLD
        self._window = allocate_shared(mpi, elements)
        self._shared = shared_part(self._window, SERVER)
        self._weights = floats(elements, 0)
        shared_part(self._window, self._comm.rank).fill(DELTA)
        self._comm.Barrier()

    def read(self) -> None:
        """Copy the weights."""
        copy(self._weights.view(np.uint8), self._shared.view(np.uint8))

    def push(self) -> None:
        """Report the delta, and wait until the server has added it."""
        self._comm.Isend(bytearray(1), dest=SERVER, tag=DELTAS).Wait()
        nap_until_done(self._comm.Irecv(bytearray(1), source=SERVER, tag=DONE))

    def settle(self) -> None:
        """Nothing is left to wait for: a push ends when it is added."""

    def close(self) -> None:
        """Free the window."""
        del self._shared
        self._comm.Barrier()
        self._window.Free()


def allocate_shared(mpi: Any, elements: int) -> Any:
    """Make a window with `elements` elements of each rank."""
    return mpi.Win.Allocate_shared(elements * ELEMENT, ELEMENT, comm=mpi.COMM_WORLD)


def shared_part(window: Any, rank: int) -> Array:
    """Return the part of `rank`, as this process maps it."""
    memory, _ = window.Shared_query(rank)
    return np.frombuffer(memory, np.float32)


EXCHANGES: dict[str, Callable[[Any, int], MpiExchange]] = {
    "preposted": Preposted,
    "one-sided": OneSided,
    "mpi-shared": Shared,
}
