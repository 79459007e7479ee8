"""The bandwidth test: half of the processes read whole segments, half write them.

The limit is measured in the same rounds: a raw loop with as many processes, the same mix of reads
and writes, and the same bytes.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from farwrite import box
from farwrite_bench._native import copy
from farwrite_bench.box.pages import filled
from farwrite_bench.box.plan import BANDWIDTH, BOX_SHM, BOX_TCP, BoxPlan
from farwrite_bench.box.process import (
    Call,
    Close,
    Open,
    Turn,
    ask,
    processes,
    repeated,
    served_box,
    serving,
)
from farwrite_bench.box.rows import rated, row
from farwrite_bench.cluster.group import in_turn
from farwrite_bench.cluster.process import Task
from farwrite_bench.failure import attempt
from farwrite_bench.harness.benchmark import Progress
from farwrite_bench.report.parts import Row

TARGET = 0.9
RAW = {BOX_SHM: "raw-shm", BOX_TCP: "raw-tcp"}
"""The limit of each transport."""
BOX_SHARE = 3.0
"""Segments in memory for each process over the box: its own, and at the server one or two buffers
and, over TCP, the bytes that are on their way."""
RAW_SHARE = 2.0
"""The same in the raw loop, whose memory is held beside the box's from round to round."""
INTERPRETER_BYTES = 80 * 10**6
ROUND_BYTES = 6 * 10**9
"""About as much is moved in one turn, by all processes together."""
START_SECONDS = 0.1
WARM_UP = 3
"""Moves that take every page before the first turn: a writer's segments fill two buffers."""

Bytes = npt.NDArray[np.uint8]


def run(plan: BoxPlan, progress: Progress, logs: Path) -> list[Row]:
    """Measure each transport of the box with each number of processes."""
    rows: list[Row] = []
    for place, number in enumerate(plan.processes):
        size = segment_bytes(plan, number)
        passes = 1 if plan.quick else max(ROUND_BYTES // (number * size), 1)
        moved = {"workers": number, "bytes": size, "passes": passes}
        for transport in plan.boxes:
            progress(place / len(plan.processes), f"{number} processes over {transport}")
            figures = attempt(_measure, plan, number, transport, size, passes, logs)
            rows.append(row(BANDWIDTH, transport, **moved, **figures))
    return rows


def _measure(plan: BoxPlan, number: int, transport: str, size: int, passes: int, logs: Path) -> Row:
    with processes(number, logs) as tasks:
        return rated(_rates(plan, tasks, transport, size, passes, logs), TARGET)


def segment_bytes(plan: BoxPlan, number: int) -> int:
    """Return the size of a segment that the memory allows for `number` processes."""
    free = replace(plan, available=plan.available - number * INTERPRETER_BYTES)
    return free.segment_bytes((BOX_SHARE + RAW_SHARE) * number + 1)


def _rates(
    plan: BoxPlan, tasks: Sequence[Task], transport: str, size: int, passes: int, logs: Path
) -> dict[str, list[float]]:
    """Return the bytes per second of all processes together, of the transport and of its limit."""
    rates: dict[str, list[float]] = {transport: [], RAW[transport]: []}
    with contextlib.ExitStack() as stack:
        for way in rates:
            stack.enter_context(_opened(tasks, way, size, logs))
        for _, way in in_turn(list(rates), plan.rounds):
            rates[way].append(_turn(tasks, way, size, passes))
    return rates


@contextlib.contextmanager
def _opened(tasks: Sequence[Task], way: str, size: int, logs: Path) -> Iterator[None]:
    """Start the other side, and a stream in every process."""
    number = len(tasks)
    make = box_stream if way in RAW else tcp_stream if way == RAW[BOX_TCP] else shm_stream
    with contextlib.ExitStack() as stack:
        if way in RAW:
            memory = int(BOX_SHARE * number * size) + size
            place = stack.enter_context(serving(logs, served_box, memory))
        elif way == RAW[BOX_TCP]:
            place = stack.enter_context(serving(logs, raw_server, number))
        else:
            shared = os.memfd_create("farwrite-bench", os.MFD_CLOEXEC)
            stack.callback(os.close, shared)
            os.truncate(shared, number * size)
            place = f"/proc/{os.getpid()}/fd/{shared}"
        ask(tasks, *(Open(way, make, (way, place, size, each)) for each in range(number)))
        yield
        ask(tasks, Close(way))


def _turn(tasks: Sequence[Task], way: str, size: int, passes: int) -> float:
    moment = time.perf_counter() + START_SECONDS
    began, ended = zip(*ask(tasks, Call(way, "run", (moment, passes))), strict=True)
    seconds: float = max(ended) - min(began)
    return len(tasks) * size * passes / seconds


def _reads(number: int) -> bool:
    """Return what the process of this number does: every other one writes."""
    return number % 2 == 0


def _stream(read: Callable[[], object], write: Callable[[], object], number: int) -> Turn:
    """Make the turn that moves the same bytes again and again, a whole segment in each step."""
    move = read if _reads(number) else write
    for _ in range(WARM_UP):
        move()
    return Turn(repeated(move))


@contextlib.contextmanager
def box_stream(way: str, place: str, size: int, number: int) -> Iterator[Turn]:
    """Read or write a segment that only this process uses."""
    with box.connect(place, fabrics=[way.removeprefix("box-")]) as client:
        segment = client.create(f"stream {number}", (size,), "uint8", buffers=2)
        if _reads(number) and way == BOX_SHM:  # the read is a copy, into any memory
            memory = filled(size, number % 251, np.uint8)
        else:
            memory = client.array((size,), "uint8").array
            memory.fill(number % 251)
        yield _stream(lambda: segment.read(memory), lambda: segment.write(memory), number)


@contextlib.contextmanager
def shm_stream(way: str, place: str, size: int, number: int) -> Iterator[Turn]:
    """Copy, by the kernel that Farwrite chose, a part of shared memory that no other one uses."""
    with open(place, "r+b") as file:
        mapped = mmap.mmap(file.fileno(), 0)
    # The same advice as for Farwrite's segments; otherwise the limit would be too low.
    mapped.madvise(mmap.MADV_HUGEPAGE)
    shared: Bytes = np.frombuffer(mapped, np.uint8)[number * size : (number + 1) * size]
    shared.fill(0)
    memory = filled(size, number % 251, np.uint8)
    yield _stream(lambda: copy(memory, shared), lambda: copy(shared, memory), number)


@contextlib.contextmanager
def tcp_stream(way: str, place: str, size: int, number: int) -> Iterator[Turn]:
    """Receive from, or send to, a thread of `raw_server` over one plain socket."""
    host, port = place.rsplit(":", 1)
    with socket.create_connection((host, int(port))) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A reader sends a byte to request a segment. A writer receives one when a segment arrived.
        line.sendall(np.array([size, _reads(number)], np.uint64).data)
        memory = filled(size, number % 251, np.uint8)
        word = np.zeros(1, np.uint8)

        def read() -> None:
            line.sendall(word.data)
            _receive(line, memory)

        def write() -> None:
            line.sendall(memory.data)
            _receive(line, word)

        yield _stream(read, write, number)


@contextlib.contextmanager
def raw_server(clients: int) -> Iterator[Turn]:
    """Serve the clients of the raw loop over TCP, each in a thread of its own."""
    with socket.create_server(("127.0.0.1", 0), backlog=clients) as listener:
        threads = [threading.Thread(target=_serve_raw, args=(listener,)) for _ in range(clients)]
        for thread in threads:
            thread.start()
        yield Turn(place=f"127.0.0.1:{listener.getsockname()[1]}")
        for thread in threads:
            thread.join()


def _serve_raw(listener: socket.socket) -> None:
    """Answer one client of `tcp_stream` until it closes its connection."""
    line, _ = listener.accept()
    with line, contextlib.suppress(ConnectionError):
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        head = np.zeros(2, np.uint64)
        _receive(line, head)
        size, reads = map(int, head)
        memory = filled(size, 0, np.uint8)
        word = np.zeros(1, np.uint8)
        while True:
            _receive(line, word if reads else memory)
            line.sendall((memory if reads else word).data)


def _receive(line: socket.socket, memory: npt.NDArray[Any]) -> None:
    """Fill an array, in as few calls as possible."""
    left = memory.data.cast("B")
    while left:
        count = line.recv_into(left, 0, socket.MSG_WAITALL)
        if count == 0:
            raise ConnectionResetError("bench box: the other process closed its raw socket")
        left = left[count:]
