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
from types import TracebackType

import numpy as np
import numpy.typing as npt

from farwrite_bench._native import ONE_WAY_BYTES, RAMP_START, RAMP_STEP, fill_ramp
from farwrite_bench.peers.loop import ECHO_PLACES, Loop

Bytes = npt.NDArray[np.uint8]
Buffer = bytes | memoryview | Bytes
ECHO_BYTES = ECHO_PLACES * ONE_WAY_BYTES


@dataclass(frozen=True)
class Area:
    """A part of a file of memory, which any process of this user can map."""

    path: str
    start: int
    bytes: int

    def map(self) -> Bytes:
        """Map it, with all its pages."""
        with open(self.path, "r+b") as file:
            flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
            mapping = mmap.mmap(file.fileno(), self.bytes, flags=flags, offset=self.start)
        return np.frombuffer(mapping, np.uint8)


class Pools:
    """The source, the landing pool and the memory of echoes. A context manager that frees them."""

    def __init__(self, pool_bytes: int) -> None:
        self.pool_bytes = pool_bytes
        self._files: list[int] = []

    def __enter__(self) -> Pools:
        try:
            self._source = self._make("source", self.pool_bytes, ramp=True)
            self._landing = self._make("landing", self.pool_bytes)
            # What the receiver echoes, and where the echo lands at the sender.
            self._echo_source = self._make("echo-source", ECHO_BYTES, ramp=True)
            self._echo_landing = self._make("echo-landing", ECHO_BYTES)
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._close()

    def areas(self, *, receives: bool) -> tuple[Area, Area]:
        """Return what a side sends from, and what it receives into."""
        if receives:
            return self._echo_source, self._landing
        return self._source, self._echo_landing

    def _make(self, name: str, size: int, *, ramp: bool = False) -> Area:
        descriptor = os.memfd_create(f"farwrite-bench-{name}", os.MFD_CLOEXEC)
        self._files.append(descriptor)
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
        return Area(f"/proc/{os.getpid()}/fd/{descriptor}", 0, size)

    def _close(self) -> None:
        for descriptor in self._files:
            os.close(descriptor)
        self._files.clear()


class Payloads:
    """The sender's payloads of one loop: places of the source, each numbered anew."""

    def __init__(self, source: Bytes, loop: Loop) -> None:
        self._source = source
        self._words = source.data.cast("Q")  # the quickest way to write one word
        self._loop = loop
        self._first = loop.seed << 32

    def number(self, transfer: int) -> int:
        """Write the transfer's number into its place; return the offset of the place."""
        offset = transfer % self._loop.places * self._loop.stride
        self._words[offset // 8] = self._first | transfer
        return offset

    def rewrite(self, transfer: int) -> int:
        """Write the whole payload anew, as a program does; return the offset of its place."""
        offset = transfer % self._loop.places * self._loop.stride
        payload = self._source[offset : offset + self._loop.size]
        fill_ramp(payload, offset // 8)
        return self.number(transfer)

    def stream(self) -> Iterator[int]:
        """Yield the offset of each transfer, and number it when it is taken."""
        return map(self.number, range(self._loop.transfers))

    def restore(self) -> None:
        """Write the ramp's own words again where the numbers are."""
        used = np.arange(min(self._loop.transfers, self._loop.places), dtype=np.uint64)
        places = used * np.uint64(self._loop.stride // 8)
        words = self._source.view(np.uint64)
        words[places] = np.uint64(RAMP_START) + places * np.uint64(RAMP_STEP)
