"""Measures a process: bytes over TCP sockets, wall time and memory.

The meter needs no plug-in, so that a stock run is measured in the same way.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from farwrite.sockets import SocketBytes, bytes_by_socket


class SocketMeter:
    """Adds up the bytes of this process's TCP sockets, including those that were closed.

    The meter misses the bytes that a socket moved between the last `look` and its close. Call
    `look` regularly, from any thread.
    """

    def __init__(self) -> None:
        self._open: dict[int, SocketBytes] = {}
        self._closed = SocketBytes(0, 0)
        self._lock = threading.Lock()

    def look(self) -> SocketBytes:
        """Return the bytes sent and received so far. The result never decreases."""
        with self._lock:
            now = bytes_by_socket()
            for inode, last in self._open.items():
                if inode not in now or now[inode].sent < last.sent:  # closed, or a new one
                    self._closed = _sum(self._closed, last)
            self._open = now
            return _sum(self._closed, *now.values())

    def start_afresh(self) -> None:
        """Count from now on, in a forked child. The parent counts the bytes before the fork."""
        self._lock = threading.Lock()
        self._open = bytes_by_socket()
        before = _sum(*self._open.values())
        self._closed = SocketBytes(-before.sent, -before.received)


def _sum(*counts: SocketBytes) -> SocketBytes:
    return SocketBytes(sum(c.sent for c in counts), sum(c.received for c in counts))


METER = SocketMeter()
"""The meter of this process."""


def wall_seconds() -> float:
    """Return the seconds since this process was started."""
    started = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started / os.sysconf("SC_CLK_TCK")


def peak_memory() -> int:
    """Return the peak resident memory of this process in bytes (VmHWM)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0
