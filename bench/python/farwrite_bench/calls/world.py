"""Both ends of a channel in one thread of one process, and what is called on them.

``python -m farwrite_bench.calls.world ROUND TIMES`` makes the calls of one round so many times.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

import numpy as np

from farwrite import Channel, Device, TensorReceiver, TensorSender

SECONDS = 20.0
"""The limit of every wait."""


def connect(left: Device, right: Device) -> tuple[Channel, Channel]:
    """Open a channel from `left` to `right`, and return both ends of it."""
    with ThreadPoolExecutor(1) as pool:
        accepted = pool.submit(right.accept, SECONDS)
        return left.connect(right.endpoint, SECONDS), accepted.result()


class World:
    """Two devices, as `_native.Calls` has them. Use it as a context manager."""

    def __init__(self) -> None:
        with contextlib.ExitStack() as stack:
            self._left = stack.enter_context(Device(fabrics=["shm"]))
            self._right = stack.enter_context(Device(fabrics=["shm"]))
            self.rounds: Mapping[str, Callable[[], object]] = self._connected()
            """What one round of each name calls."""
            self._stack = stack.pop_all()

    def _connected(self) -> dict[str, Callable[[], object]]:
        near, far = connect(self._left, self._right)
        word = np.zeros(1, "u8")
        self._landing = far.publish("landing", far.allocate(1, "u8"))
        self._source = self._right.publish("source", self._right.allocate(1, "u8"))
        target = near.lookup("landing", SECONDS)
        outbox = near.lookup("source", SECONDS)
        known = TensorReceiver(far, "static", shape=(1,), dtype="u8")
        unknown = TensorReceiver(far, "dynamic")
        to_known = TensorSender(near, "static", SECONDS)
        to_unknown = TensorSender(near, "dynamic", SECONDS)

        def write() -> None:
            near.write(word, target).wait(SECONDS)

        def read() -> None:
            near.read(outbox, word).wait(SECONDS)

        def notify_and_try() -> None:
            near.notify(1).wait(SECONDS)
            far.try_notification()

        def write_and_wait() -> None:
            near.write(word, target, notify=1).wait(SECONDS)
            far.wait_notification(SECONDS)

        def send_and_wait() -> None:
            near.send(word).wait(SECONDS)
            far.wait_notification(SECONDS)

        def static_tensor() -> None:
            sent = to_known.send(word, SECONDS)
            known.receive(SECONDS)
            if sent.done():
                sent.wait(SECONDS)

        def dynamic_tensor() -> None:
            sent = to_unknown.send(word, SECONDS)
            unknown.receive(SECONDS)
            if sent.done():
                sent.wait(SECONDS)

        made = (
            *(write, read, notify_and_try, write_and_wait, send_and_wait),
            *(static_tensor, dynamic_tensor),
        )
        return {each.__name__.replace("_", " "): each for each in made}

    def seconds(self, name: str, times: int) -> float:
        """Return the seconds of `times` rounds of the calls of `name`."""
        call = self.rounds[name]
        began = time.perf_counter()
        for _ in range(times):
            call()
        return time.perf_counter() - began

    def __enter__(self) -> World:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()


if __name__ == "__main__":
    with World() as world:
        world.seconds(sys.argv[1], int(sys.argv[2]))
