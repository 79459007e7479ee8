"""A worker of the emulation over the box."""

from __future__ import annotations

import time
from dataclasses import asdict

import numpy as np

from farwrite import box
from farwrite_bench.box.emulator import DELTA, emulate, sleep_until
from farwrite_bench.box.orders import Checked, Open, Ran, Start

WEIGHTS = "weights"
ELEMENT = 4
"""Bytes of a float32."""
ATTACH_SECONDS = 60.0


class Worker:
    """Reads the shared weights, and accumulates a delta that lies in memory the box reads."""

    def __init__(self, order: Open, fabric: str) -> None:
        elements = order.bytes // ELEMENT
        self._client = box.connect(order.place, fabrics=[fabric])
        self._shared = self._client.create(WEIGHTS, (elements,), "float32", exclusive=False)
        self._weights = self._client.array((elements,), "float32").array
        self._delta = self._client.array((elements,), "float32").array
        self._weights.fill(0)  # its pages are taken before the first read
        self._delta.fill(DELTA)

    def read(self) -> None:
        """Read the weights; each MiB by itself is of one version."""
        self._shared.read(self._weights, consistent="chunk")

    def push(self) -> None:
        """Accumulate the delta; returns when the server has applied it."""
        self._shared.accumulate(self._delta)

    def run(self, order: Start) -> Ran:
        """Run the steps; the figure of each is its exposed communication."""
        sleep_until(order.moment)
        seconds = emulate(self, order.compute, order.steps)
        counts = asdict(self._client.stats())
        return Ran(order.moment, time.perf_counter(), seconds, counts)

    def check(self) -> Checked:
        """Return the range of the weights."""
        weights = self._shared.read(self._weights)
        return Checked(float(np.min(weights)), float(np.max(weights)))

    def close(self) -> None:
        """Leave the box."""
        self._client.close()
