"""The limit of a tensor between hosts: only its bytes, through one socket.

A `Task` of this module is the producer. The consumer sends a request of nine bytes,
because every transport needs a request. It receives into an existing buffer, in as few calls as
possible.
"""

from __future__ import annotations

import mmap
import socket
import struct
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from farwrite.errors import Internal
from farwrite_bench.cluster.seat import Seat
from farwrite_bench.cluster.server import answer
from farwrite_bench.tensor.graph import timed
from farwrite_bench.tensor.plan import RAW, Case

BUFFER_BYTES = 4 * 2**20
"""Size of each socket buffer. If the kernel does not allow it, the kernel chooses the size."""
TUNING = (
    "raw socket: one connection, {buffers}, TCP_NODELAY, one sendall, received into one buffer;"
    " the memory is allocated before, used again in every step, and in {pages} pages as Farwrite's"
)
SHARED_PAGES = Path("/sys/kernel/mm/transparent_hugepage/shmem_enabled")
_REQUEST = struct.Struct("<QB")  # the number of bytes, and their value
_SHORTEST = 1
"""Bytes of the answer of an empty step."""


def memory(size: int) -> mmap.mmap:
    """Allocate private memory with the page size that Farwrite's shared memory has here."""
    made = mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    made.madvise(mmap.MADV_HUGEPAGE if huge_pages() else mmap.MADV_NOHUGEPAGE)
    return made


def huge_pages() -> bool:
    """Whether the kernel gives shared memory huge pages on request."""
    try:
        allowed = SHARED_PAGES.read_text()
    except OSError:
        return False
    return any(f"[{name}]" in allowed for name in ("always", "within_size", "advise", "force"))


def listen_or_connect(address: tuple[str, int], listening: bool) -> socket.socket:
    """Open a socket. The buffers are set first, because a connection negotiates by their size."""
    made = socket.socket()
    if large_buffers_allowed():
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
    try:
        if listening:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(address)
            made.listen(1)
        else:
            made.connect(address)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError:
        made.close()
        raise
    return made


def large_buffers_allowed() -> bool:
    """Whether the kernel grants `BUFFER_BYTES`. If it grants less, its own sizes are faster."""
    with socket.socket() as probe:
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            probe.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)
            # The kernel reports twice the size.
            if probe.getsockopt(socket.SOL_SOCKET, option) < 2 * BUFFER_BYTES:
                return False
    return True


def tuning() -> str:
    """Describe the settings of the sockets."""
    size = f"buffers of {BUFFER_BYTES >> 20} MiB"
    return TUNING.format(
        buffers=size if large_buffers_allowed() else "the kernel's own buffers",
        pages="huge" if huge_pages() else "small",
    )


class RawCase:
    """The consumer's end of one case, a `Graph` without TensorFlow."""

    def __init__(self, tf: Any, transport: str, target: str, case: Case, number: int) -> None:
        host, _, port = target.removeprefix("grpc://").rpartition(":")
        self._socket = listen_or_connect((host, int(port)), listening=False)
        self._memory = memory(case.size)
        self._buffer = memoryview(self._memory)[: case.size]
        self._fill = number % 251 + 1
        self._step(case.size)
        if self._buffer[:: max(case.size // 1024, 1)].tobytes().strip(bytes([self._fill])):
            raise Internal("bench: the raw socket delivered wrong bytes; report this")

    def take(self, empty: bool, count: int) -> list[float]:
        """Move the bytes `count` times and return the seconds of each."""
        size = _SHORTEST if empty else len(self._buffer)
        return timed(lambda: self._step(size), count)

    def close(self) -> None:
        """End the connection."""
        self._buffer.release()
        self._memory.close()
        self._socket.close()

    def _step(self, size: int) -> None:
        self._socket.sendall(_REQUEST.pack(size, self._fill))
        done = 0
        while done < size:
            count = self._socket.recv_into(self._buffer[done:size], 0, socket.MSG_WAITALL)
            if count == 0:
                raise Internal("bench: the peer closed the raw socket; report this")
            done += count


def _serve(listener: socket.socket) -> None:
    while True:
        connected, _ = listener.accept()
        with connected:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _answer(connected)


def _answer(connected: socket.socket) -> None:
    filled = memory(1)
    while request := connected.recv(_REQUEST.size, socket.MSG_WAITALL):
        size, fill = _REQUEST.unpack(request)
        if size > len(filled) or filled[0] != fill:
            filled = memory(size)
            filled.write(bytes([fill]) * size)
        with memoryview(filled) as whole, whole[:size] as part:
            connected.sendall(part)


def main(control: Connection) -> None:
    """Produce, until the parent closes the control pipe."""
    seat: Seat = control.recv()
    host, _, port = seat.cluster[seat.job][seat.index].rpartition(":")
    with listen_or_connect((host, int(port)), listening=True) as listener:
        threading.Thread(target=_serve, args=(listener,), daemon=True).start()
        answer(control, RAW.key)
