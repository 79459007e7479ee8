"""``multiprocessing.shared_memory``: a ring of payloads that both processes map."""

from __future__ import annotations

import contextlib
import os
import platform
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import numpy as np

from farwrite_bench.peers.end import End, Setup
from farwrite_bench.peers.loop import Buffer
from farwrite_bench.peers.peer import PYTHON, Peer
from farwrite_bench.peers.pool import ECHO_BYTES
from farwrite_bench.peers.sides import in_two_processes

COUNTERS_BYTES = 4096
LINE_WORDS = 32
"""Counters lie 256 bytes apart, so that no processor fetches two of them together."""
TO_RECEIVER, TO_SENDER, READ = 0, LINE_WORDS, 2 * LINE_WORDS
"""The counters of payloads that were copied in, by direction, and of those that were read."""


class _SharedEnd(End):
    """One side of a segment: counters, the place of echoes, and the places of payloads.

    A side copies a payload into the segment, and then raises a counter that the other side polls.
    Nothing in Python orders the two stores: this needs a processor that does, such as x86.
    """

    settings = (
        f"Python {platform.python_version()}: memoryview slices copy into one segment; a counter in"
        " it is polled"
    )

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._memory: SharedMemory | None = None
        if setup.receives:
            size = COUNTERS_BYTES + ECHO_BYTES + setup.pools.into.bytes
            self._memory = SharedMemory(create=True, size=size)
            self._allocate(size)

    def _allocate(self, size: int) -> None:
        """Allocate all pages: a store that finds no room would end the process by a signal."""
        assert self._memory is not None
        try:
            with open(f"/dev/shm/{self._memory.name}", "r+b") as file:
                os.posix_fallocate(file.fileno(), 0, size)
        except OSError:
            self._memory.close()
            self._memory.unlink()
            raise

    @property
    def address(self) -> Any:
        return None if self._memory is None else self._memory.name

    def connect(self, other: Any) -> None:
        if self._memory is None:
            self._memory = SharedMemory(other)
        buffer = self._memory.buf
        assert buffer is not None
        self._counters = buffer[:COUNTERS_BYTES].cast("Q")
        echoes = buffer[COUNTERS_BYTES : COUNTERS_BYTES + ECHO_BYTES]
        payloads = buffer[COUNTERS_BYTES + ECHO_BYTES :]
        if self.setup.receives:
            np.frombuffer(payloads, np.uint8).fill(0)  # all pages are mapped, as in the other pools
        self._there, self._here = (echoes, payloads) if self.setup.receives else (payloads, echoes)
        self._mine, self._theirs = (
            (TO_SENDER, TO_RECEIVER) if self.setup.receives else (TO_RECEIVER, TO_SENDER)
        )
        self._source = self.out.data
        self._sent = self._taken = self._read = 0

    def send(self, offset: int) -> None:
        at, size = next(self.targets), self.loop.size
        self._there[at : at + size] = self._source[offset : offset + size]
        self._sent += 1
        self._counters[self._mine] = self._sent

    def receive(self) -> Buffer:
        self._taken += 1
        self._poll(self._theirs, self._taken)
        at = next(self.arrivals)
        return self._here[at : at + self.loop.size]

    def acknowledge(self) -> None:
        self._read += 1
        self._counters[READ] = self._read

    def await_acknowledgement(self) -> None:
        self._read += 1
        self._poll(READ, self._read)

    def _poll(self, counter: int, wanted: int) -> None:
        counters = self._counters
        while counters[counter] < wanted:
            pass

    def close(self) -> None:
        """Remove the segment; its mapping goes with the process."""
        if self.setup.receives and self._memory is not None:
            with contextlib.suppress(FileNotFoundError):
                self._memory.unlink()


PEER = Peer(
    "shared-memory",
    "multiprocessing.shared_memory",
    PYTHON,
    in_two_processes(_SharedEnd),
    copies=lambda _: 1,
    ahead="a hand-made ring for two processes that trust each other: no check of bounds, no peer"
    " that may die, no thread",
    memory=1.0,
)
