"""A rank of the transport mpi: ``python -m farwrite_bench.grpc.mpi_rank SOCKET``.

A request is a message for each buffer of the payload, and so is an echo; an acknowledgement is one
empty message. Receives are posted in advance. A rank looks through its requests in turn, and yields
its processor when none of them has ended.
"""

from __future__ import annotations

import itertools
import os
import resource
import statistics
import sys
import time
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from farwrite_bench._native import tune_malloc
from farwrite_bench.box.openmpi import load_mpi, run_rank
from farwrite_bench.grpc.mpi import Done, Work
from farwrite_bench.grpc.plan import Case, Pace

Bytes = npt.NDArray[np.uint8]
REQUESTS, REPLIES, STOP = 0, 1, 2
"""Kinds of messages."""
KINDS = 3
STRIDE = 4096
LINE = 64


class Message:
    """The buffers of one payload, in one block of memory."""

    def __init__(self, sizes: Iterable[int]) -> None:
        ends = np.cumsum([0, *sizes])
        self.bytes: Bytes = np.empty(int(ends[-1]), np.uint8)
        self.buffers = [self.bytes[start:end] for start, end in itertools.pairwise(ends)]

    def mark(self, call: int, marks: Bytes) -> None:
        """Write a mark into the first byte of each 4 KiB."""
        if self.bytes.size:
            self.bytes[::STRIDE] = marks + np.uint8(call)

    def is_whole(self, marks: Bytes, call: int | None = None) -> bool:
        """Read every cache line; return whether all marks belong to one call, or to `call`."""
        self.bytes[::LINE].sum()
        found: int = self.bytes[0] if call is None else call
        return bool(np.array_equal(self.bytes[::STRIDE], marks + np.uint8(found)))


class Rank:
    """What the ranks have in common: their tags, and how they post messages."""

    def __init__(self, mpi: Any, case: Case) -> None:
        self.mpi, self.comm, self.case = mpi, mpi.COMM_WORLD, case
        blocks = -(-case.payload.bytes // STRIDE)
        self.marks: Bytes = (np.arange(blocks) * 167).astype(np.uint8)
        self.sizes = case.payload.buffers
        self.reply_sizes = case.payload.buffers if case.echo else (0,)

    def tag(self, kind: int, slot: int, buffer: int) -> int:
        """Return the tag of one buffer of a call's message."""
        return (slot * len(self.sizes) + buffer) * KINDS + kind

    def send(self, message: Message, peer: int, kind: int, slot: int) -> list[Any]:
        """Begin to send the buffers of a message."""
        return [
            self.comm.Isend(buffer, dest=peer, tag=self.tag(kind, slot, number))
            for number, buffer in enumerate(message.buffers)
        ]

    def receive(self, message: Message, peer: int, kind: int, slot: int) -> list[Any]:
        """Begin to receive the buffers of a message."""
        return [
            self.comm.Irecv(buffer, source=peer, tag=self.tag(kind, slot, number))
            for number, buffer in enumerate(message.buffers)
        ]

    def ended(self, requests: list[Any]) -> bool:
        """Whether all of these have ended."""
        return bool(self.mpi.Request.Testall(requests))


class Serving:
    """A server's side of one slot of one caller."""

    def __init__(self, rank: Rank, caller: int, slot: int) -> None:
        self._rank, self._caller, self._slot = rank, caller, slot
        self._message = Message(rank.sizes)
        self._acknowledgement = Message((0,))
        self._replies: list[Any] = []
        self._accept()

    def _accept(self) -> None:
        self._requests = self._rank.receive(self._message, self._caller, REQUESTS, self._slot)

    def step(self) -> tuple[bool, int]:
        """Do what can be done; return whether that was anything, and the damaged requests."""
        if self._replies:
            if not self._rank.ended(self._replies):
                return False, 0
            self._replies = []
            self._accept()
            return True, 0
        if not self._rank.ended(self._requests):
            return False, 0
        wrong = int(not self._message.is_whole(self._rank.marks))
        reply = self._message if self._rank.case.echo else self._acknowledgement
        self._replies = self._rank.send(reply, self._caller, REPLIES, self._slot)
        return True, wrong

    def close(self) -> None:
        """Give up the receive that no request will match."""
        self._rank.mpi.Request.Waitall(self._replies)
        if self._replies:
            return
        for request in self._requests:
            request.Cancel()
        self._rank.mpi.Request.Waitall(self._requests)


class Calling:
    """A caller's side of one slot: a call to one server."""

    def __init__(self, rank: Rank, server: int, slot: int) -> None:
        self._rank, self._server, self._slot = rank, server, slot
        self._reply = Message(rank.reply_sizes)
        self._request = Message(rank.sizes)
        self._number = 0
        self._pending: list[Any] = []
        self.started = 0.0

    @property
    def is_under_way(self) -> bool:
        """Whether a call has no reply."""
        return bool(self._pending)

    def start(self) -> None:
        """Begin a call."""
        self._number = (self._number + 1) % 256
        if not self._rank.case.reuse:
            self._request = Message(self._rank.sizes)
        if not self._rank.case.reuse or self._number == 1:
            self._request.mark(self._number, self._rank.marks)
        self.started = time.perf_counter()
        self._pending = self._rank.receive(self._reply, self._server, REPLIES, self._slot)
        self._pending += self._rank.send(self._request, self._server, REQUESTS, self._slot)

    def step(self) -> tuple[bool, int]:
        """Return whether the call has ended, and whether its reply was damaged."""
        if not self._rank.ended(self._pending):
            return False, 0
        self._pending = []
        case = self._rank.case
        number = None if case.reuse else self._number
        return True, int(case.echo and not self._reply.is_whole(self._rank.marks, number))


def take_turn(mpi: Any, case: Case, pace: Pace) -> Done:
    """Serve or call, or both, until every caller is done."""
    rank = Rank(mpi, case)
    me, servers = rank.comm.rank, range(case.servers)
    callers = range(case.servers, rank.comm.size) if case.workers else servers
    slots = range(case.outstanding)
    serving = [
        Serving(rank, caller, slot)
        for caller in callers
        for slot in slots
        if me in servers and caller != me
    ]
    calling = [
        Calling(rank, server, slot)
        for server in servers
        for slot in slots
        if me in callers and server != me
    ]
    rank.comm.Barrier()
    before = _cpu_seconds()
    loop = _Loop(rank, serving, calling, [each for each in callers if each != me])
    loop.run(pace)
    cpu = _cpu_seconds() - before
    for each in serving:
        each.close()
    rank.comm.Barrier()
    return Done(loop.calls, cpu, _peak_bytes(), loop.wrong, loop.measured)


class _Loop:
    """Looks through all slots in turn, until this rank and its callers are done."""

    def __init__(
        self, rank: Rank, serving: list[Serving], calling: list[Calling], callers: list[int]
    ) -> None:
        self.calls = self.wrong = 0
        self.measured: dict[str, float] | None = None
        self._rank, self._serving, self._calling = rank, serving, calling
        stop = STOP + KINDS * len(rank.sizes) * rank.case.outstanding
        self._stop_tag = stop
        self._stops = (
            [rank.comm.Irecv(bytearray(1), source=caller, tag=stop) for caller in callers]
            if serving
            else []
        )

    def run(self, pace: Pace) -> None:
        """Take the turn."""
        warm = time.perf_counter() + pace.warm_up
        first = last = 0.0
        seconds: list[float] = []
        done = not self._calling
        for call in self._calling:
            self._start(call)
        while not (done and self._may_end()):
            moved = False
            for served in self._serving:
                progressed, wrong = served.step()
                moved |= progressed
                self.wrong += wrong
            for call in self._under_way():
                ended, wrong = call.step()
                self.wrong += wrong
                if not ended:
                    continue
                moved, now = True, time.perf_counter()
                if done:
                    continue
                if first == 0.0:
                    first = now if now >= warm else 0.0
                else:
                    last = now
                    seconds.append(now - call.started)
                    done = last - first >= pace.seconds
                if not done:
                    self._start(call)
            if done and self._calling and self.measured is None and not any(self._under_way()):
                self._finish(seconds, last - first)
            if not moved:
                os.sched_yield()

    def _start(self, call: Calling) -> None:
        self.calls += 1
        call.start()

    def _under_way(self) -> Iterator[Calling]:
        return (call for call in self._calling if call.is_under_way)

    def _finish(self, seconds: list[float], length: float) -> None:
        cuts = statistics.quantiles(seconds * 2 if len(seconds) < 2 else seconds, n=100)
        self.measured = {
            "calls": len(seconds),
            "seconds": length,
            "p50_us": cuts[49] * 1e6,
            "p99_us": min(cuts[98], max(seconds)) * 1e6,
        }
        for server in range(self._rank.case.servers):
            if server != self._rank.comm.rank:
                self._rank.comm.Send(bytearray(1), dest=server, tag=self._stop_tag)

    def _may_end(self) -> bool:
        if self._calling and self.measured is None:
            return False
        return self._rank.ended(self._stops)


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _peak_bytes() -> int:
    """Return the largest resident memory; getrusage also counts what started this process."""
    status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))


def main() -> int:
    """Take one turn and answer with its figures."""
    return run_rank(_follow)


def _follow(control: Connection) -> None:
    tune_malloc()
    mpi = load_mpi()
    control.send(None)
    work = control.recv()
    assert isinstance(work, Work)
    control.send(take_turn(mpi, work.case, work.pace))
    control.recv()  # ends when the command closes the connection


if __name__ == "__main__":
    sys.exit(main())
