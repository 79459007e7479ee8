"""Workers of the emulation over the box."""

from __future__ import annotations

import abc
import time
from dataclasses import asdict

import numpy as np

from farwrite import box
from farwrite_bench.box.emulator import DELTA, emulate, sleep_until
from farwrite_bench.box.orders import Checked, Open, Ran, Start

WEIGHTS = "weights"
ELEMENT = 4
"""Bytes of a float32."""
LEASED_BUFFERS = 34
"""Each of 32 workers may lease another version; one is current, and one comes next."""


class _Worker(abc.ABC):
    """Accumulates a delta that lies in memory the box reads."""

    def __init__(self, order: Open, fabric: str, buffers: int) -> None:
        elements = order.bytes // ELEMENT
        self._client = box.connect(order.place, fabrics=[fabric])
        self._shared = self._client.create(
            WEIGHTS, (elements,), "float32", exclusive=False, buffers=buffers
        )
        self._delta = self._client.array((elements,), "float32").array
        self._delta.fill(DELTA)

    @abc.abstractmethod
    def read(self) -> None:
        """Fetch the shared weights."""

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
        weights = self._shared.read()
        return Checked(float(np.min(weights)), float(np.max(weights)))

    def close(self) -> None:
        """Leave the box."""
        self._client.close()


class ReadingWorker(_Worker):
    """Copies the shared weights into its own memory. Each MiB belongs to one version."""

    def __init__(self, order: Open, fabric: str) -> None:
        super().__init__(order, fabric, buffers=2)
        self._weights = self._client.array(self._shared.shape, "float32").array
        self._weights.fill(0)  # its pages are taken before the first read

    def read(self) -> None:
        """Copy the weights."""
        self._shared.read(self._weights, consistent="chunk")


class LeasingWorker(_Worker):
    """Computes on the server's own memory: a lease keeps one version of all weights as it is."""

    def __init__(self, order: Open, fabric: str) -> None:
        super().__init__(order, fabric, buffers=LEASED_BUFFERS)
        # The server takes the requests of one client in order: this one's wait for no delta.
        self._reader = box.connect(order.place, fabrics=[fabric])
        self._weights = self._reader.attach(WEIGHTS)
        self._lease = self._weights.lease()
        # The server takes another buffer for the version that comes next; here it does in advance.
        self._shared.accumulate(self._delta, scale=0)

    def read(self) -> None:
        """End the lease of the step before, and take one on the newest version."""
        self._lease.close()
        self._lease = self._weights.lease()

    def close(self) -> None:
        """End the last lease, and leave the box."""
        self._lease.close()
        self._reader.close()
        super().close()
