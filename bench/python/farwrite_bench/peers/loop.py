"""A loop that both sides run: where its transfers lie, how they are written, and their check."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from farwrite_bench._native import (
    ONE_WAY_BYTES,
    RAMP_START,
    RAMP_STEP,
    fill_ramp,
    slots,
    transfer_of,
)
from farwrite_bench.peers.peer import BANDWIDTH, LATENCY
from farwrite_bench.peers.plan import WINDOW

ECHO_PLACES = 2
"""Echoes stay in two places, which are warm. An echo may be under way while the next one is
written, so one place is not enough."""

Bytes = npt.NDArray[np.uint8]
Buffer = bytes | memoryview | Bytes

now_ns = time.monotonic_ns


@dataclass(frozen=True)
class Loop:
    """One loop. Sizes are in bytes; the transfers take the places of a pool in rotation."""

    kind: str
    """`LATENCY`, or `BANDWIDTH`: until the receiver has read and acknowledged the last one."""
    size: int
    transfers: int
    seed: int
    """Of 32 bits; tells the payloads of two loops apart."""
    pool_bytes: int

    @cached_property
    def echoes(self) -> bool:
        """Whether the same bytes come back, and half of the round trip is the latency.

        A small transfer is too short for two clocks.
        """
        return self.kind == LATENCY and self.size < ONE_WAY_BYTES

    @cached_property
    def one_way(self) -> bool:
        """Whether both sides read one clock, from before a send until its bytes are read."""
        return self.kind == LATENCY and self.size >= ONE_WAY_BYTES

    @cached_property
    def window(self) -> int:
        """How many transfers are under way at most."""
        return min(WINDOW, self.places) if self.kind == BANDWIDTH else 1

    @cached_property
    def stride(self) -> int:
        """The bytes from one place to the next."""
        return (self.size + 63) // 64 * 64

    @cached_property
    def places(self) -> int:
        """How many places the transfers use: all of a pool, as in ``bench p2p``."""
        return ECHO_PLACES if self.echoes else slots(self.size, 1, self.pool_bytes)

    def offsets(self) -> Iterator[int]:
        """Yield the offset of the place of each transfer, without an end."""
        return itertools.cycle(range(0, self.places * self.stride, self.stride))


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
        fill_ramp(self._source[offset : offset + self._loop.size], offset // 8)
        return self.number(transfer)

    def restore(self) -> None:
        """Write the ramp's own words again where the numbers are."""
        used = np.arange(min(self._loop.transfers, self._loop.places), dtype=np.uint64)
        words = used * np.uint64(self._loop.stride // 8)
        self._source.view(np.uint64)[words] = np.uint64(RAMP_START) + words * np.uint64(RAMP_STEP)


class Checker:
    """The receiver's check: reads every byte of what arrives, and notes when that was done."""

    def __init__(self, loop: Loop, echoes: Bytes) -> None:
        self._loop = loop
        self._taken = bytearray(loop.transfers)
        self._echoes = Payloads(echoes, loop) if loop.echoes else None
        self._next = 0
        self._bad = 0
        self.read_ns = [0] * (loop.transfers if loop.one_way else 0)
        """When each one-way transfer was read, in nanoseconds of CLOCK_MONOTONIC."""

    def prepare(self) -> int:
        """Write the next echo, outside of its time; return its offset."""
        if self._echoes is None:
            return 0
        self._next += 1
        return self._echoes.rewrite(self._next - 1)

    def take(self, payload: Buffer) -> None:
        """Check a payload."""
        loop = self._loop
        transfer = transfer_of(payload, loop.seed, loop.places, loop.stride)
        if not 0 <= transfer < loop.transfers or self._taken[transfer]:
            self._bad += 1
            return
        self._taken[transfer] = 1
        if self.read_ns:
            self.read_ns[transfer] = now_ns()

    @property
    def bad(self) -> int:
        """How many were wrong, and how many never came."""
        return self._bad + self._taken.count(0)
