"""The server's side of MPI: rank 0, which holds the weights and adds the deltas to them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from farwrite import box
from farwrite_bench.box.mpi_exchange import (
    DELTAS,
    DONE,
    ELEMENT,
    NAP_SECONDS,
    WEIGHTS,
    Array,
    allocate_shared,
    shared_part,
)
from farwrite_bench.box.pages import floats

SENDS_POSTED = 2
"""Sends of the weights that are posted for each worker, so that a read never waits for one."""


class MpiServer(Protocol):
    """Rank 0 of one way of exchanging."""

    weights: Array
    """What the workers read and change."""

    def serve(self, steps: int) -> None:
        """Serve `steps` reads and pushes of every worker."""

    def close(self) -> None:
        """Free what the ranks share."""


class _Sum:
    """Adds a delta by the box's own kernel, split over as many threads as the box takes."""

    def __init__(self, weights: Array) -> None:
        threads = os.cpu_count() or 1
        edges = [weights.size * place // threads // 16 * 16 for place in range(threads)]
        self._parts = [slice(*ends) for ends in pairwise([*edges, weights.size])]
        self._weights = weights
        self._pool = ThreadPoolExecutor(threads)

    def add(self, delta: Array) -> None:
        """Add `delta` to the weights."""
        adding = [
            self._pool.submit(box.add_scaled, self._weights[part], delta[part], 1.0)
            for part in self._parts
        ]
        for each in adding:
            each.result()

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()


class _Adder:
    """Adds deltas in its own thread, so that the server's thread goes on receiving."""

    def __init__(self, weights: Array) -> None:
        self._sum = _Sum(weights)
        self._pool = ThreadPoolExecutor(1)
        self._busy: dict[int, Future[None]] = {}

    def start(self, worker: int, delta: Array) -> None:
        """Add `delta`, which must not change until `ended` returns its worker."""
        self._busy[worker] = self._pool.submit(self._sum.add, delta)

    def ended(self) -> list[int]:
        """Return the workers whose deltas were added since the last call; raises an error."""
        over = [worker for worker, adding in self._busy.items() if adding.done()]
        for worker in over:
            self._busy.pop(worker).result()
        return over

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()
        self._sum.close()


class PrepostedServer:
    """Receives each delta into its own memory, in advance, and posts its sends in advance.

    The weights change while a send of them is posted. MPI's standard forbids that to programs that
    need one version; a worker of asynchronous training takes whatever its receive copies.
    """

    def __init__(self, mpi: Any, elements: int) -> None:
        self._mpi = mpi
        self._comm = mpi.COMM_WORLD
        self._workers = range(1, self._comm.size)
        self.weights: Array = floats(elements, 0)
        self._deltas = {worker: floats(elements, 0) for worker in self._workers}
        self._adder = _Adder(self.weights)
        self._comm.Barrier()

    def serve(self, steps: int) -> None:
        """Serve `steps` reads and pushes of every worker."""
        sends = dict.fromkeys(self._workers, steps)
        receives = dict.fromkeys(self._workers, steps)
        added = 0
        posted: list[tuple[int, int]] = []
        requests: list[Any] = []

        def post(tag: int, worker: int) -> None:
            left = sends if tag == WEIGHTS else receives
            if left[worker] == 0:
                return
            left[worker] -= 1
            if tag == WEIGHTS:
                request = self._comm.Isend(self.weights, dest=worker, tag=tag)
            else:
                request = self._comm.Irecv(self._deltas[worker], source=worker, tag=tag)
            posted.append((tag, worker))
            requests.append(request)

        for worker in self._workers:
            for _ in range(SENDS_POSTED):
                post(WEIGHTS, worker)
            post(DELTAS, worker)
        while added < steps * len(self._workers):
            over = set(self._mpi.Request.Testsome(requests) or ()) if requests else set()
            ended = [posted[place] for place in over]
            requests[:] = [each for place, each in enumerate(requests) if place not in over]
            posted[:] = [each for place, each in enumerate(posted) if place not in over]
            for tag, worker in ended:
                if tag == WEIGHTS:
                    post(WEIGHTS, worker)
                else:
                    self._adder.start(worker, self._deltas[worker])
            ready = self._adder.ended()
            added += len(ready)
            for worker in ready:
                post(DELTAS, worker)
            if not over and not ready:
                time.sleep(NAP_SECONDS)
        self._mpi.Request.Waitall(requests)

    def close(self) -> None:
        """Part from the other ranks."""
        self._adder.close()
        self._comm.Barrier()


class OneSidedServer:
    """Holds the window. The workers read and change it by themselves."""

    def __init__(self, mpi: Any, elements: int) -> None:
        self._mpi = mpi
        self._comm = mpi.COMM_WORLD
        self._window = mpi.Win.Allocate(elements * ELEMENT, ELEMENT, comm=self._comm)
        self.weights: Array = np.frombuffer(self._window.tomemory(), np.float32)
        self.weights.fill(0)
        self._comm.Barrier()
        self._window.Lock_all()

    def serve(self, steps: int) -> None:
        """Wait until every worker has made its `steps` steps."""
        done = [
            self._comm.Irecv(bytearray(1), source=worker, tag=DONE)
            for worker in range(1, self._comm.size)
        ]
        while not self._mpi.Request.Testall(done):
            time.sleep(NAP_SECONDS)  # the test gives MPI its turn, where it needs one
        self._window.Sync()

    def close(self) -> None:
        """Free the window."""
        self._window.Unlock_all()
        del self.weights
        self._comm.Barrier()
        self._window.Free()


class SharedServer:
    """Adds the deltas where they lie, one after the other, as they are reported."""

    def __init__(self, mpi: Any, elements: int) -> None:
        self._mpi = mpi
        self._comm = mpi.COMM_WORLD
        self._window = allocate_shared(mpi, elements)
        self.weights = shared_part(self._window, 0)
        self.weights.fill(0)
        self._sum = _Sum(self.weights)
        self._comm.Barrier()

    def serve(self, steps: int) -> None:
        """Serve `steps` pushes of every worker."""
        deltas = {rank: shared_part(self._window, rank) for rank in range(1, self._comm.size)}
        status = self._mpi.Status()
        for _ in range(steps * len(deltas)):
            while not self._comm.Iprobe(tag=DELTAS, status=status):
                time.sleep(NAP_SECONDS)
            worker = status.Get_source()
            self._comm.Recv(bytearray(1), source=worker, tag=DELTAS)
            self._window.Sync()
            self._sum.add(deltas[worker])
            self._window.Sync()
            self._comm.Send(bytearray(1), dest=worker, tag=DONE)

    def close(self) -> None:
        """Free the window."""
        self._sum.close()
        del self._sum, self.weights
        self._comm.Barrier()
        self._window.Free()


SERVERS: dict[str, Callable[[Any, int], MpiServer]] = {
    "preposted": PrepostedServer,
    "one-sided": OneSidedServer,
    "mpi-shared": SharedServer,
}
