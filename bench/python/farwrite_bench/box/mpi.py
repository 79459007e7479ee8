"""The emulation over MPI: rank 0 is the server, which holds the weights, and the others work.

Every function is called by all ranks together. ``python -m farwrite_bench.box.mpi SOCKET`` is one.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from farwrite import box
from farwrite_bench._native import copy
from farwrite_bench.box import process
from farwrite_bench.box.openmpi import load_mpi, run_rank
from farwrite_bench.box.pages import Floats, filled
from farwrite_bench.box.process import Turn
from farwrite_bench.box.worker import DELTA, worker_turn

SERVER = 0
"""Its rank."""
ELEMENT = 4
"""Bytes of a float32."""
WEIGHTS, DELTAS, DONE = 1, 2, 3
"""Tags of messages."""
NAP_SECONDS = 50e-6
"""Between two looks at requests under way. Waiting inside of MPI would keep a processor busy, and
here more processes wait than there are processors."""
PIECE = 1 << 18
"""Elements of one MPI_Raccumulate. The target is locked for as long as one takes."""
SENDS_POSTED = 2
"""Sends of the weights that are posted for each worker, so that a read never waits for one."""


@contextlib.contextmanager
def preposted(size: int) -> Iterator[Turn]:
    """Two-sided: the server has posted its sends and receives before a worker posts its own.

    So a receive copies at once out of the server's memory, by CMA and without the server.
    """
    comm = load_mpi().COMM_WORLD
    weights = filled(size, 0)
    if comm.rank == SERVER:
        with _adding(weights) as add, ThreadPoolExecutor(1) as adder:
            deltas = {worker: filled(size, 0) for worker in range(1, comm.size)}
            comm.Barrier()

            def serve(steps: int) -> None:
                _serve_preposted(weights, deltas, lambda delta: adder.submit(add, delta), steps)

            yield _server(serve, weights)
    else:
        delta = filled(size, DELTA)
        comm.Barrier()
        yield worker_turn(
            lambda: comm.Recv(weights, source=SERVER, tag=WEIGHTS),
            lambda: _nap_until_done(comm.Isend(delta, dest=SERVER, tag=DELTAS)),
        )
    comm.Barrier()


def _serve_preposted(
    weights: Floats,
    deltas: Mapping[int, Floats],
    start_adding: Callable[[Floats], Future[None]],
    steps: int,
) -> None:
    """Serve `steps` reads and pushes of every worker, and receive each delta into its own memory.

    The weights change while a send of them is posted. MPI's standard forbids that to programs that
    need one version; a worker of asynchronous training takes whatever its receive copies.
    """
    mpi = load_mpi()
    comm = mpi.COMM_WORLD
    left = {(tag, worker): steps for tag in (WEIGHTS, DELTAS) for worker in deltas}
    posted: list[tuple[Any, int, int]] = []
    adding: dict[int, Future[None]] = {}

    def post(tag: int, worker: int) -> None:
        if left[tag, worker] == 0:
            return
        left[tag, worker] -= 1
        if tag == WEIGHTS:
            request = comm.Isend(weights, dest=worker, tag=tag)
        else:
            request = comm.Irecv(deltas[worker], source=worker, tag=tag)
        posted.append((request, tag, worker))

    for worker in deltas:
        for _ in range(SENDS_POSTED):
            post(WEIGHTS, worker)
        post(DELTAS, worker)
    added = 0
    while added < steps * len(deltas):
        over = mpi.Request.Testsome([request for request, _, _ in posted]) or ()
        ended = [posted[place] for place in over]
        posted[:] = [each for place, each in enumerate(posted) if place not in over]
        for _, tag, worker in ended:
            if tag == WEIGHTS:
                post(WEIGHTS, worker)
            else:
                adding[worker] = start_adding(deltas[worker])
        ready = [worker for worker, each in adding.items() if each.done()]
        added += len(ready)
        for worker in ready:
            adding.pop(worker).result()  # raises its error
            post(DELTAS, worker)
        if not ended and not ready:
            time.sleep(NAP_SECONDS)
    mpi.Request.Waitall([request for request, _, _ in posted])


@contextlib.contextmanager
def one_sided(size: int) -> Iterator[Turn]:
    """One-sided: MPI_Rget, and MPI_Raccumulate with MPI_SUM, on a window of MPI_Win_allocate."""
    mpi = load_mpi()
    comm = mpi.COMM_WORLD
    serves = comm.rank == SERVER
    window = mpi.Win.Allocate(size if serves else 0, ELEMENT, comm=comm)
    weights = np.frombuffer(window.tomemory(), np.float32) if serves else filled(size, 0)
    weights.fill(0)
    delta = filled(0 if serves else size, DELTA)
    comm.Barrier()
    window.Lock_all()

    def serve(steps: int) -> None:
        done = [comm.Irecv(bytearray(1), source=n, tag=DONE) for n in range(1, comm.size)]
        while not mpi.Request.Testall(done):
            time.sleep(NAP_SECONDS)  # the test gives MPI its turn, where it needs one
        window.Sync()

    def push() -> None:
        for start in range(0, delta.size, PIECE):
            piece = delta[start : start + PIECE]
            target = (start, piece.size, mpi.FLOAT)
            window.Raccumulate(piece, SERVER, target, op=mpi.SUM).Wait()

    def settle() -> None:
        window.Flush(SERVER)
        _nap_until_done(comm.Isend(bytearray(1), dest=SERVER, tag=DONE))

    if serves:
        yield _server(serve, weights)
    else:
        yield worker_turn(lambda: window.Rget(weights, SERVER).Wait(), push, settle)
    window.Unlock_all()
    comm.Barrier()
    window.Free()


@contextlib.contextmanager
def shared(size: int) -> Iterator[Turn]:
    """Memory of MPI_Win_allocate_shared: the weights and the deltas lie where all ranks map them.

    The server adds a delta where it lies, one after the other, when its rank reports it.
    """
    mpi = load_mpi()
    comm = mpi.COMM_WORLD
    window = mpi.Win.Allocate_shared(size, ELEMENT, comm=comm)
    parts = [np.frombuffer(window.Shared_query(n)[0], np.float32) for n in range(comm.size)]
    parts[comm.rank].fill(0 if comm.rank == SERVER else DELTA)
    mine = filled(0 if comm.rank == SERVER else size, 0)
    comm.Barrier()

    def read() -> None:
        copy(mine.view(np.uint8), parts[SERVER].view(np.uint8))

    def push() -> None:
        comm.Isend(bytearray(1), dest=SERVER, tag=DELTAS).Wait()
        _nap_until_done(comm.Irecv(bytearray(1), source=SERVER, tag=DONE))

    with _adding(parts[SERVER]) as add:

        def serve(steps: int) -> None:
            status = mpi.Status()
            for _ in range(steps * (comm.size - 1)):
                while not comm.Iprobe(tag=DELTAS, status=status):
                    time.sleep(NAP_SECONDS)
                source = status.Get_source()
                comm.Recv(bytearray(1), source=source, tag=DELTAS)
                window.Sync()
                add(parts[source])
                window.Sync()
                comm.Send(bytearray(1), dest=source, tag=DONE)

        yield _server(serve, parts[SERVER]) if comm.rank == SERVER else worker_turn(read, push)
    comm.Barrier()
    window.Free()


def _server(serve: Callable[[int], None], weights: Floats) -> Turn:
    """Make the turn of rank 0, which measures nothing."""

    def run(moment: float, steps: int, compute: float) -> tuple[list[float], dict[str, int]]:
        serve(steps)
        return [], {}

    return Turn(run, lambda: weights)


@contextlib.contextmanager
def _adding(weights: Floats) -> Iterator[Callable[[Floats], None]]:
    """Yield what adds a delta by the box's own kernel, over as many threads as the box takes."""
    threads = os.cpu_count() or 1
    edges = [weights.size * place // threads // 16 * 16 for place in range(threads)]
    parts = [slice(*ends) for ends in pairwise([*edges, weights.size])]
    with ThreadPoolExecutor(threads) as pool:

        def add(delta: Floats) -> None:
            list(pool.map(lambda part: box.add_scaled(weights[part], delta[part], 1.0), parts))

        yield add


def _nap_until_done(request: Any) -> None:
    """Wait for a request without keeping a processor busy."""
    while not request.Test():
        time.sleep(NAP_SECONDS)


def _follow(control: Connection) -> None:
    load_mpi()
    process.main(control)


if __name__ == "__main__":
    sys.exit(run_rank(_follow))
