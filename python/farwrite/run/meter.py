"""What a process used: bytes through sockets, wall time and memory.

Works with and without the plug-in, so that a stock run is measured alike.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from farwrite.sockets import SocketBytes, bytes_by_socket


class SocketMeter:
    """Adds up the TCP sockets of this process, and remembers those that were closed.

    What a socket moved between the last look and its closing is not seen, so look now and then.
    Any thread may look.
    """

    def __init__(self) -> None:
        self._open: dict[int, SocketBytes] = {}
        self._closed = SocketBytes(0, 0)
        self._lock = threading.Lock()

    def look(self) -> SocketBytes:
        """Return the bytes sent and received so far; never less than before."""
        with self._lock:
            now = bytes_by_socket()
            for inode, last in self._open.items():
                if inode not in now or now[inode].sent < last.sent:  # closed, or a new one
                    self._closed = _sum(self._closed, last)
            self._open = now
            return _sum(self._closed, *now.values())

    def start_afresh(self) -> None:
        """Count from here: in a forked child, whose parent counts what was before."""
        self._lock = threading.Lock()
        self._open = bytes_by_socket()
        before = _sum(*self._open.values())
        self._closed = SocketBytes(-before.sent, -before.received)


def _sum(*counts: SocketBytes) -> SocketBytes:
    return SocketBytes(sum(c.sent for c in counts), sum(c.received for c in counts))


METER = SocketMeter()
"""The one of this process."""


def wall_seconds() -> float:
    """Return the time since this process was started."""
    started = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started / os.sysconf("SC_CLK_TCK")


def peak_memory() -> int:
    """Return the most bytes of memory this process ever had resident (VmHWM)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0
