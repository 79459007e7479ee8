"""The memory that the transfers use in rotation, which all libraries share.

All senders take their payloads from one source, and all receivers that can receive into memory of
the program use one landing pool. Both are mapped by every process, since only one library moves
bytes at a time. The memory of the whole run thus does not grow with the number of libraries.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from farwrite_bench._native import ONE_WAY_BYTES, fill_ramp
from farwrite_bench.peers.loop import ECHO_PLACES, Bytes

ECHO_BYTES = ECHO_PLACES * ONE_WAY_BYTES


@dataclass(frozen=True)
class Area:
    """A file of memory, which any process of this user can map."""

    path: str
    bytes: int

    def map(self) -> Bytes:
        """Map it, with all its pages."""
        with open(self.path, "r+b") as file:
            flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
            return np.frombuffer(mmap.mmap(file.fileno(), self.bytes, flags=flags), np.uint8)


@dataclass(frozen=True)
class Pools:
    """What every side of one kind sends from, and what it receives into."""

    out: Area
    into: Area


@contextlib.contextmanager
def shared_pools(pool_bytes: int) -> Iterator[tuple[Pools, Pools]]:
    """Make the pools of the receivers, and those of the senders; free them at the end."""
    with contextlib.ExitStack() as stack:
        source = _make(stack, "source", pool_bytes, ramp=True)
        landing = _make(stack, "landing", pool_bytes)
        # What the receiver echoes, and where the echo lands at the sender.
        echo_source = _make(stack, "echo-source", ECHO_BYTES, ramp=True)
        echo_landing = _make(stack, "echo-landing", ECHO_BYTES)
        yield Pools(echo_source, landing), Pools(source, echo_landing)


def _make(stack: contextlib.ExitStack, name: str, size: int, *, ramp: bool = False) -> Area:
    descriptor = os.memfd_create(f"farwrite-bench-{name}", os.MFD_CLOEXEC)
    stack.callback(os.close, descriptor)
    os.truncate(descriptor, size)
    with mmap.mmap(descriptor, size) as mapping:
        with contextlib.suppress(OSError):  # a kernel without huge pages
            mapping.madvise(mmap.MADV_HUGEPAGE)
        data = np.frombuffer(mapping, np.uint8)
        if ramp:
            fill_ramp(data, 0)
        else:
            data.fill(0)
        del data
    return Area(f"/proc/{os.getpid()}/fd/{descriptor}", size)
