"""The transport mpi: a turn in the ranks of one MPI program, of which the servers come first.

A request is a message for each buffer of the payload, and so is an echo; an acknowledgement is one
empty message. Receives are posted in advance. A rank looks through its requests in turn, and yields
its processor when none of them has ended. ``python -m farwrite_bench.grpc.mpi SOCKET`` is a rank.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Generator, Iterable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from farwrite.errors import Internal
from farwrite_bench._native import tune_malloc
from farwrite_bench.box.openmpi import OpenMpi, load_mpi, mpi_ranks, run_rank
from farwrite_bench.cluster import readings
from farwrite_bench.grpc.plan import Case, Pace
from farwrite_bench.grpc.process import SERVER, WORKER, Answers
from farwrite_bench.program import ANSWER_SECONDS

Bytes = npt.NDArray[np.uint8]
Requests = list[Any]
Slot = Generator[Requests, None, None]
"""Yields the requests for whose end it waits. The rank empties the list when all have ended, which
frees their buffers."""
REQUESTS, REPLIES, STOP = 0, 1, 2
"""Kinds of messages."""
KINDS = 3
STRIDE = 4096
LINE = 64


def take_turn(
    openmpi: OpenMpi, case: Case, pace: Pace, logs: Path
) -> tuple[list[dict[str, Any]], Answers]:
    """Measure `case` once, in new ranks; return the answers of callers and of all, by role."""
    count = case.servers + case.workers
    with mpi_ranks(openmpi, count, logs / "mpi.log", "farwrite_bench.grpc.mpi") as ranks:
        for rank in ranks:
            rank.send((case, pace))
        limit = pace.warm_up + pace.seconds + ANSWER_SECONDS
        answers = [rank.receive(limit) for rank in ranks]
    ended = [answer for answer in answers if isinstance(answer, dict)]
    if len(ended) != count:
        raise Internal(f"bench grpc: MPI ranks answered {answers!r}; report this")
    measured = [answer["measured"] for answer in ended if answer["measured"]]
    return measured, {WORKER: ended[case.servers :], SERVER: ended[: case.servers]}


class Message:
    """The buffers of one payload, in one block of memory."""

    def __init__(self, sizes: Iterable[int]) -> None:
        ends = np.cumsum([0, *sizes])
        self.bytes: Bytes = np.empty(int(ends[-1]), np.uint8)
        self.buffers = [self.bytes[start:end] for start, end in itertools.pairwise(ends)]

    def mark(self, call: int, marks: Bytes) -> None:
        """Write a mark into the first byte of each 4 KiB."""
        self.bytes[::STRIDE] = marks + np.uint8(call)

    def is_whole(self, marks: Bytes, call: int | None = None) -> bool:
        """Read every cache line; return whether all marks belong to one call, or to `call`."""
        self.bytes[::LINE].sum()
        found: int = self.bytes[0] if call is None else call
        return bool(np.array_equal(self.bytes[::STRIDE], marks + np.uint8(found)))


class Rank:
    """One rank: it serves and calls, in slots of which each has one call under way."""

    def __init__(self, mpi: Any, case: Case, pace: Pace) -> None:
        self.mpi, self.comm, self.case, self.pace = mpi, mpi.COMM_WORLD, case, pace
        blocks = -(-case.payload.bytes // STRIDE)
        self.marks: Bytes = (np.arange(blocks) * 167).astype(np.uint8)
        self.sizes = case.payload.buffers
        self.calls = self.wrong = 0
        self.seconds: list[float] = []
        """Of each measured call."""
        self.warm = self.first = self.last = 0.0
        self.done = False
        """Whether all of the time is measured."""

    def turn(self) -> dict[str, Any]:
        """Serve or call, or both, until every caller is done; return the program's answers."""
        me, servers = self.comm.rank, range(self.case.servers)
        callers = range(self.case.servers, self.comm.size) if self.case.workers else servers
        slots = range(self.case.outstanding)
        my_callers = [each for each in callers if me in servers and each != me]
        my_servers = [each for each in servers if me in callers and each != me]
        serving = [self.serve(*each) for each in itertools.product(my_callers, slots)]
        calling = [self.call(*each) for each in itertools.product(my_servers, slots)]
        tag = STOP + KINDS * len(self.sizes) * self.case.outstanding
        stops = [self.comm.Irecv(bytearray(1), source=each, tag=tag) for each in my_callers]
        waiting = {slot: next(slot) for slot in serving}
        self.comm.Barrier()
        before = time.process_time()
        self.warm = time.perf_counter() + self.pace.warm_up
        waiting |= {slot: next(slot) for slot in calling}
        measures = bool(calling)
        while measures or not self.mpi.Request.Testall(stops):
            moved = False
            for slot, requests in list(waiting.items()):
                if self.mpi.Request.Testall(requests):
                    moved = True
                    requests.clear()
                    waiting[slot] = next(slot, [])
                    if not waiting[slot]:
                        del waiting[slot]
            if measures and len(waiting) == len(serving):
                measures = False
                for server in my_servers:
                    self.comm.Send(bytearray(1), dest=server, tag=tag)
            if not moved:
                os.sched_yield()
        cpu_seconds = time.process_time() - before
        for slot in serving:
            slot.close()
        self.comm.Barrier()
        return {
            "calls": self.calls,
            "cpu_seconds": cpu_seconds,
            "peak_bytes": readings.read("rank").peak_rss,
            "wrong": self.wrong,
            "measured": self._measured() if calling else None,
        }

    def serve(self, caller: int, slot: int) -> Slot:
        """Answer one slot of a caller, until the generator is closed."""
        message, empty = Message(self.sizes), Message((0,))
        received: Requests = []
        sent: Requests = []
        try:
            while True:
                yield (received := self._receive(message, caller, REQUESTS, slot))
                self.wrong += not message.is_whole(self.marks)
                reply = message if self.case.echo else empty
                yield (sent := self._send(reply, caller, REPLIES, slot))
        finally:
            for request in received:  # no request will match it
                request.Cancel()
            self.mpi.Request.Waitall(received + sent)

    def call(self, server: int, slot: int) -> Slot:
        """Call a server again and again, until all of the time is measured."""
        reply = Message(self.sizes if self.case.echo else (0,))
        request = Message(self.sizes)
        request.mark(0, self.marks)
        number = 0
        while not self.done:
            if not self.case.reuse:
                number = (number + 1) % 256
                request = Message(self.sizes)
                request.mark(number, self.marks)
            self.calls += 1
            started = time.perf_counter()
            requests = self._receive(reply, server, REPLIES, slot)
            requests += self._send(request, server, REQUESTS, slot)
            yield requests
            self.wrong += self.case.echo and not reply.is_whole(self.marks, number)
            self._ended(started, time.perf_counter())

    def _ended(self, started: float, now: float) -> None:
        """Count a call; the time is measured from the end of one to the end of another."""
        if self.done:
            return
        if self.first:
            self.last = now
            self.seconds.append(now - started)
            self.done = now - self.first >= self.pace.seconds
        elif now >= self.warm:
            self.first = now

    def _measured(self) -> dict[str, float]:
        p50, p99 = np.percentile(self.seconds, (50, 99)) * 1e6
        return {
            "calls": len(self.seconds),
            "seconds": self.last - self.first,
            "p50_us": float(p50),
            "p99_us": float(p99),
        }

    def _tag(self, kind: int, slot: int, buffer: int) -> int:
        return (slot * len(self.sizes) + buffer) * KINDS + kind

    def _send(self, message: Message, peer: int, kind: int, slot: int) -> Requests:
        return [
            self.comm.Isend(buffer, dest=peer, tag=self._tag(kind, slot, number))
            for number, buffer in enumerate(message.buffers)
        ]

    def _receive(self, message: Message, peer: int, kind: int, slot: int) -> Requests:
        return [
            self.comm.Irecv(buffer, source=peer, tag=self._tag(kind, slot, number))
            for number, buffer in enumerate(message.buffers)
        ]


def _follow(control: Connection) -> None:
    tune_malloc()
    mpi = load_mpi()
    control.send("ready")
    case, pace = control.recv()
    control.send(Rank(mpi, case, pace).turn())
    control.recv()  # ends when the command closes the connection


if __name__ == "__main__":
    sys.exit(run_rank(_follow))
