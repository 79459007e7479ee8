"""The emulated worker of asynchronous training: it exchanges parameters, and sleeps to compute.

A step of the worker reads the shared weights, computes, and hands its delta to a helper thread. The
helper pushes the delta while the next step runs. The worker waits for it only if the push before
has not ended when the next delta is ready. So the exposed time of communication is the time of the
step minus the time of the computation (Soft Memory Box poster, section 3).
"""

from __future__ import annotations

import queue
import threading
import time
from typing import Protocol

DELTA = 2.0**-6
"""Every element of every delta. Sums of it are exact, so lost and doubled updates show."""


class Exchange(Protocol):
    """How one worker exchanges parameters. One thread reads, another one pushes."""

    def read(self) -> None:
        """Fetch the shared weights into this worker's memory."""

    def push(self) -> None:
        """Add this worker's delta to the shared weights; returns when its memory is free again."""


def emulate(exchange: Exchange, compute: float, steps: int) -> list[float]:
    """Run `steps` steps; return the exposed seconds of communication of each."""
    exposed = []
    with Helper(exchange) as helper:
        for _ in range(steps):
            start = time.perf_counter()
            exchange.read()
            sleep_until(time.perf_counter() + compute)
            helper.wait()
            helper.push()
            exposed.append(max(time.perf_counter() - start - compute, 0.0))
        helper.wait()
    return exposed


def sleep_until(moment: float) -> None:
    """Sleep until `time.perf_counter` is `moment`."""
    while (left := moment - time.perf_counter()) > 0:
        time.sleep(left)


class Helper:
    """The thread that pushes deltas, one at a time. Use it as a context manager."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._orders: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._idle = threading.Event()
        self._idle.set()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="helper")

    def push(self) -> None:
        """Start a push. The push before must have ended."""
        self._idle.clear()
        self._orders.put(True)

    def wait(self) -> None:
        """Wait until the push has ended; raises its error."""
        self._idle.wait()
        if self._failure is not None:
            raise self._failure

    def __enter__(self) -> Helper:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._orders.put(False)
        self._thread.join()

    def _run(self) -> None:
        while self._orders.get():
            try:
                self._exchange.push()
            except BaseException as error:
                self._failure = error
            self._idle.set()
