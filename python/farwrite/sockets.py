"""How many bytes this process has moved through TCP, as the kernel counted them.

Unix sockets have no such counter and are left out: over one, Farwrite only shakes hands.
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
    """Bytes of payload over the TCP sockets that are open in this process."""

    sent: int
    """Sent and acknowledged. Adding only these up over all processes counts every byte once."""
    received: int


def socket_bytes() -> SocketBytes:
    """Add up all TCP sockets of this process, since each was connected.

    A socket that was closed is no longer counted: take differences over a time in which the
    connections stayed.
    """
    counts = bytes_by_socket().values()
    return SocketBytes(sum(c.sent for c in counts), sum(c.received for c in counts))


def bytes_by_socket() -> dict[int, SocketBytes]:
    """Return the bytes of each open TCP socket, by its inode."""
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
