"""One process of the accumulate test: changes through a box, or the plain loop beside them."""

from __future__ import annotations

import os
import time
from collections import deque

import numpy as np

from farwrite import box
from farwrite_bench._native import add_in_place
from farwrite_bench.box.emulator import DELTA, sleep_until
from farwrite_bench.box.orders import Checked, Open, Ran, Start
from farwrite_bench.box.pages import floats

UNDER_WAY = 4
"""Changes that the client has posted and the server has not applied."""
ELEMENT = {"float32": 4, "bfloat16": 2}


class BoxAdd:
    """Posts accumulates of a whole segment, some of them at a time."""

    def __init__(self, order: Open, fabric: str, dtype: str) -> None:
        elements = order.bytes // ELEMENT[dtype]
        self._client = box.connect(order.place, fabrics=[fabric])
        self._sum = self._client.create("sum", (elements,), dtype)
        self._delta = self._client.array((elements,), self._sum.dtype).array
        self._delta.fill(DELTA)
        self._sum.accumulate(self._delta)

    def run(self, order: Start) -> Ran:
        """Make `order.steps` changes."""
        sleep_until(order.moment)
        began = time.perf_counter()
        under_way: deque[box.Update] = deque()
        for _ in range(order.steps):
            if len(under_way) == UNDER_WAY:
                under_way.popleft().wait()
            under_way.append(self._sum.post.accumulate(self._delta))
        for update in under_way:
            update.wait()
        return Ran(began, time.perf_counter())

    def check(self) -> Checked:
        """Return the range of the sums."""
        sums = self._sum.read().astype(np.float32)
        return Checked(float(sums.min()), float(sums.max()))

    def close(self) -> None:
        """Leave the box."""
        self._client.close()


class RawAdd:
    """`destination += source` in this process, with one thread for each processor."""

    def __init__(self, order: Open) -> None:
        self._sum = floats(order.bytes // 4, 0)
        self._delta = floats(order.bytes // 4, DELTA)
        self._threads = os.cpu_count() or 1
        add_in_place(self._sum, self._delta, self._threads)

    def run(self, order: Start) -> Ran:
        """Make `order.steps` additions."""
        sleep_until(order.moment)
        began = time.perf_counter()
        for _ in range(order.steps):
            add_in_place(self._sum, self._delta, self._threads)
        return Ran(began, time.perf_counter())

    def check(self) -> Checked:
        """Return the range of the sums."""
        return Checked(float(self._sum.min()), float(self._sum.max()))

    def close(self) -> None:
        """Nothing is held but memory."""
