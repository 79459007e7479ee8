"""Threads of one process that write at the same time. Each thread has its own channel."""

from __future__ import annotations

import contextlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

import numpy as np
import numpy.typing as npt

from farwrite import Channel, Device, RegisteredArray, RemoteArray
from farwrite_bench.calls.world import SECONDS, connect


class Threads:
    """Two devices with channels, as `_native.Threads` has them. Use it as a context manager."""

    def __init__(self, channels: int, max_bytes: int) -> None:
        with contextlib.ExitStack() as stack:
            left = stack.enter_context(Device(fabrics=["shm"]))
            right = stack.enter_context(Device(fabrics=["shm"]))
            self._lanes: list[tuple[Channel, RemoteArray, npt.NDArray[np.uint8]]] = []
            self._far: list[tuple[Channel, RegisteredArray]] = []
            for _ in range(channels):
                near, far = connect(left, right)
                landing = far.publish("landing", far.allocate(max_bytes))
                self._far.append((far, landing))
                source = np.zeros(max_bytes, "uint8")
                self._lanes.append((near, near.lookup("landing", SECONDS), source))
            self._stack = stack.pop_all()

    def seconds(self, nbytes: int, times: int, threads: int) -> float:
        """Return the seconds in which each of `threads` threads makes `times` writes."""
        began: list[float] = []
        ready = threading.Barrier(threads, lambda: began.append(time.perf_counter()))

        def write(lane: int) -> None:
            near, target, source = self._lanes[lane]
            part = source[:nbytes]
            ready.wait(SECONDS)
            for _ in range(times):
                near.write(part, target).wait(SECONDS)

        with ThreadPoolExecutor(threads) as pool:
            for each in [pool.submit(write, lane) for lane in range(threads)]:
                each.result()
            return time.perf_counter() - began[0]

    def __enter__(self) -> Threads:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()
