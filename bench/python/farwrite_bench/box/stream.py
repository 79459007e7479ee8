"""One process of the bandwidth test: it reads or writes whole segments, through a box or raw.

The raw loops have as many processes and move the same bytes: over shared memory a copy by the
kernel that Farwrite chose, over TCP one plain socket with a thread at the other end.
"""

from __future__ import annotations

import mmap
import os
import socket
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from farwrite import box
from farwrite_bench._native import copy
from farwrite_bench.box.emulator import sleep_until
from farwrite_bench.box.orders import Checked, Open, Ran, Start
from farwrite_bench.box.pages import octets

Bytes = npt.NDArray[np.uint8]
READ, WRITE = "read", "write"
WARM_UP = 3
"""Moves that take every page before the first turn: a writer's segments fill two buffers."""


class Stream:
    """Moves the same bytes again and again. `move` moves one whole segment."""

    def __init__(self, move: Callable[[], object], close: Callable[[], object]) -> None:
        self._move, self._close = move, close
        for _ in range(WARM_UP):
            move()

    def run(self, order: Start) -> Ran:
        """Move `order.steps` segments."""
        sleep_until(order.moment)
        began = time.perf_counter()
        for _ in range(order.steps):
            self._move()
        return Ran(began, time.perf_counter())

    def check(self) -> Checked:
        """Return no figures: the turns only move bytes."""
        return Checked(0.0, 0.0)

    def close(self) -> None:
        """Free the memory."""
        self._close()


def box_stream(order: Open, fabric: str, what: str) -> Stream:
    """Read or write a segment that only this process uses."""
    client = box.connect(order.place, fabrics=[fabric])
    segment = client.create(f"stream {order.number}", (order.bytes,), "uint8", buffers=2)
    if what == READ and fabric == "shm":  # the read is a copy, into any memory
        memory = octets(order.bytes, order.number % 251)
    else:
        memory = client.array((order.bytes,), "uint8").array
        memory.fill(order.number % 251)
    if what == READ:
        return Stream(lambda: segment.read(memory), client.close)
    return Stream(lambda: segment.write(memory), client.close)


def shm_stream(order: Open, what: str) -> Stream:
    """Copy from or to a part of shared memory that only this process uses."""
    with open(order.place, "r+b") as file:
        size = os.fstat(file.fileno()).st_size
        mapped = mmap.mmap(file.fileno(), size)
    # The same advice as for Farwrite's segments; otherwise the limit would be too low.
    mapped.madvise(mmap.MADV_HUGEPAGE)
    start = order.number * order.bytes
    shared: Bytes = np.frombuffer(mapped, np.uint8)[start : start + order.bytes]
    shared.fill(0)
    memory = octets(order.bytes, order.number % 251)
    if what == READ:
        return Stream(lambda: copy(memory, shared), lambda: None)
    return Stream(lambda: copy(shared, memory), lambda: None)


def tcp_stream(order: Open, what: str) -> Stream:
    """Receive from, or send to, a thread of the raw server."""
    host, port = order.place.rsplit(":", 1)
    line = socket.create_connection((host, int(port)))
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # A reader sends a byte to request a segment. A writer receives one when a segment arrived.
    head = np.array([order.bytes, what == READ], np.uint64).view(np.uint8)
    line.sendall(head.data)
    memory = octets(order.bytes, order.number % 251)
    word = np.zeros(1, np.uint8)

    def read() -> None:
        line.sendall(word.data)
        _receive(line, memory)

    def write() -> None:
        line.sendall(memory.data)
        _receive(line, word)

    return Stream(read if what == READ else write, line.close)


def _receive(line: socket.socket, memory: Bytes) -> None:
    """Fill an array, in as few calls as possible."""
    left = memory.data
    while left:
        count = line.recv_into(left, 0, socket.MSG_WAITALL)
        if count == 0:
            raise ConnectionResetError("bench box: the other process closed its raw socket")
        left = left[count:]


def serve_raw(listener: socket.socket) -> None:
    """Answer one client of `tcp_stream` until it closes its connection."""
    line, _ = listener.accept()
    with line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        head = np.zeros(2, np.uint64)
        _receive(line, head.view(np.uint8))
        memory = octets(int(head[0]), 0)
        word = np.zeros(1, np.uint8)
        reads = bool(head[1])
        try:
            while True:
                _receive(line, word if reads else memory)
                line.sendall((memory if reads else word).data)
        except ConnectionError:
            return  # the client has closed it
