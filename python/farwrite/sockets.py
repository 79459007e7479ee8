"""Reads from the kernel how many bytes this process has moved over TCP.

The kernel has no such counter for Unix sockets. They are left out: Farwrite uses them for
handshakes only.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Iterator
from typing import NamedTuple

# struct tcp_info of linux/tcp.h: tcpi_bytes_acked and tcpi_bytes_received, each 64 bits.
_BYTES_ACKED = 120
_LENGTH = 136


class SocketBytes(NamedTuple):
    """Payload bytes of the TCP sockets that are open in this process."""

    sent: int
    """Bytes sent and acknowledged. Their sum over all processes counts every byte once."""
    received: int
    """Bytes received."""


def socket_bytes() -> SocketBytes:
    """Return the bytes of all open TCP sockets of this process, each since it was connected.

    A closed socket is no longer counted. Subtract two results only if the connections stayed open
    between them.
    """
    counts = bytes_by_socket().values()
    return SocketBytes(sum(c.sent for c in counts), sum(c.received for c in counts))


def bytes_by_socket() -> dict[int, SocketBytes]:
    """Return the bytes of each open TCP socket, with its inode as the key."""
    found = {}
    for connection in _tcp_sockets():
        with contextlib.suppress(OSError):
            facts = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LENGTH)
            if len(facts) == _LENGTH:
                counts = struct.unpack_from("=QQ", facts, _BYTES_ACKED)
                found[os.fstat(connection.fileno()).st_ino] = SocketBytes(*counts)
    return found


def _tcp_sockets() -> Iterator[socket.socket]:
    for name in os.listdir("/proc/self/fd"):
        # Another thread may close a descriptor at any time; the copy is ours.
        with contextlib.suppress(OSError):
            if not os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(name))) as copy:
                if (
                    copy.family in (socket.AF_INET, socket.AF_INET6)
                    and copy.type == socket.SOCK_STREAM
                ):
                    yield copy
