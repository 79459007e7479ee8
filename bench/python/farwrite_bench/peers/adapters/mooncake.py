"""Mooncake's transfer engine: one-sided writes over TCP."""

from __future__ import annotations

import ctypes
import importlib
import importlib.metadata
import os
from typing import Any

import numpy as np

from farwrite.errors import NotFound
from farwrite_bench.peers.end import End, Setup
from farwrite_bench.peers.loop import Buffer
from farwrite_bench.peers.peer import PYTHON, Peer
from farwrite_bench.peers.sides import Site, TwoSides, in_two_processes

HOST = "127.0.0.1"
DISTRIBUTION = "mooncake-transfer-engine-non-cuda"
VERBS = "libibverbs.so.1"
"""Mooncake's module is linked to it, and needs no adapter."""
COUNTERS_BYTES = 4096
WRITTEN, READ, LOCAL = 0, 16, 32
"""Counters, as places of 64-bit words: of payloads written here, of those that the other side has
read, and the one from which this side writes. A write says nothing to its target, so a second one
raises a counter that the target polls."""


class _MooncakeEnd(End):
    """An engine."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._engine: Any = importlib.import_module("mooncake.engine").TransferEngine()
        self._require(self._engine.initialize(HOST, "P2PHANDSHAKE", "tcp", ""), "initialize")
        self._memory = np.zeros(2 * COUNTERS_BYTES, np.uint8)
        skip = -self._memory.ctypes.data % COUNTERS_BYTES
        counters = self._memory[skip : skip + COUNTERS_BYTES]
        self._counters = counters.data.cast("Q")
        self._counters_at = counters.ctypes.data
        for memory in (self.out, self.into, counters):
            self._require(
                self._engine.register_memory(memory.ctypes.data, memory.nbytes), "register memory"
            )
        self._written = self._taken = self._read = 0
        self.settings = (
            f"Mooncake {importlib.metadata.version(DISTRIBUTION)}: transfer_sync_write over tcp on"
            " the loopback, then a second one of a counter, which is polled"
        )

    @property
    def address(self) -> Any:
        """The engine's session, and the addresses of its memory."""
        session = f"{HOST}:{self._engine.get_rpc_port()}"
        return session, self.into.ctypes.data, self._counters_at

    def connect(self, other: Any) -> None:
        self._session, self._remote_into, self._remote_counters = other

    def send(self, offset: int) -> None:
        at = self._remote_into + next(self.targets)
        self._write(self.out.ctypes.data + offset, at, self.loop.size)
        self._written += 1
        self._raise(WRITTEN, self._written)

    def receive(self) -> Buffer:
        self._taken += 1
        self._poll(WRITTEN, self._taken)
        at = next(self.arrivals)
        return self.into[at : at + self.loop.size]

    def acknowledge(self) -> None:
        self._read += 1
        self._raise(READ, self._read)

    def await_acknowledgement(self) -> None:
        self._read += 1
        self._poll(READ, self._read)

    def _raise(self, counter: int, value: int) -> None:
        self._counters[LOCAL] = value
        self._write(self._counters_at + 8 * LOCAL, self._remote_counters + 8 * counter, 8)

    def _write(self, source: int, target: int, size: int) -> None:
        self._require(
            self._engine.transfer_sync_write(self._session, source, target, size), "write"
        )

    def _poll(self, counter: int, wanted: int) -> None:
        counters = self._counters
        while counters[counter] < wanted:
            os.sched_yield()  # the engine's thread needs a processor

    def _require(self, status: int, what: str) -> None:
        if status != 0:
            raise RuntimeError(f"Mooncake cannot {what}: status {status}")


def _start(site: Site) -> TwoSides:
    try:
        ctypes.CDLL(VERBS)
    except OSError:
        raise NotFound(f"Mooncake needs {VERBS}, which this system lacks") from None
    return in_two_processes(_MooncakeEnd)(site)


PEER = Peer(
    "mooncake",
    "Mooncake",
    PYTHON,
    _start,
    module="mooncake",
    install=f"pip install '{DISTRIBUTION}>=0.3.13,<0.4', or farwrite-bench[mooncake]; and install"
    " the system's package libibverbs1",
    copies=lambda _: 2,
)
