"""Raises in the middle of calls, as a signal handler does, and checks what arrives elsewhere.

    alarms_program.py FABRIC OPERATION SEED SECONDS

Prints how many calls were interrupted, and each piece of data that mixes two calls.
"""

from __future__ import annotations

import contextlib
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import farwrite as fw

WORDS = 1 << 19
"""More than sockets hold, so that operations are under way when the next one starts."""
ROWS = 8


class AlarmError(Exception):
    """What the handler raises."""


class Alarms:
    """Raises AlarmError at a random moment of a call, and lets the next one pass or not."""

    def __init__(self, seed: int, seconds: float) -> None:
        self._random = random.Random(seed)
        self._seconds, self._end = seconds, 0.0
        self._armed = False
        self._usual = 1e-3
        self.interrupted = 0
        signal.signal(signal.SIGALRM, self._ring)

    def _ring(self, *_: object) -> None:
        if self._armed:
            self._armed = False
            raise AlarmError

    def go_on(self, found: Found) -> bool:
        """Whether time is left, counted from the first call of this; or nothing happened so far."""
        self._end = self._end or time.monotonic() + self._seconds
        return time.monotonic() < self._end or not (self.interrupted and found.arrived)

    def during(self, call: Callable[[], object]) -> None:
        begin = time.monotonic()
        longest = self._usual * self._random.choice([0.1, 0.3, 1.3])
        signal.setitimer(signal.ITIMER_REAL, 1e-6 + longest * self._random.random())
        try:
            self._armed = True
            call()
            self._armed = False
            self._usual += 0.1 * (time.monotonic() - begin - self._usual)
        except AlarmError:
            self.interrupted += 1
        finally:
            self._armed = False
            signal.setitimer(signal.ITIMER_REAL, 0)


class Found:
    """What arrived, and what of it is wrong."""

    def __init__(self) -> None:
        self.arrived = 0
        self._last = (0, 0)
        self._wrong: list[str] = []

    def number_in(self, array: Any) -> int:
        """Return the one number that all of the array has."""
        self.arrived += 1
        least, most = int(array.min()), int(array.max())
        if least != most:
            self._wrong.append(f"{least} and {most} mixed;")
        return most

    def check(self, right: bool, what: str) -> None:
        if not right:
            self._wrong.append(f"{what};")

    def add(self, version: int, array: Any) -> None:
        """A later version has a larger number: each call gives a larger one than all before it."""
        number, last = self.number_in(array), self._last
        self._last = (version, number)
        self.check(number > last[1] or version == last[0], f"{last} and then {self._last}")

    def report(self, alarms: Alarms) -> None:
        print(alarms.interrupted, "interrupted;", self.arrived, "arrived;", *self._wrong, sep=" ")


@contextlib.contextmanager
def reading(read: Callable[[], None]) -> Iterator[None]:
    """Run `read` in another thread meanwhile, until it ends because its source is gone."""
    reader = threading.Thread(target=read)
    reader.start()
    yield
    reader.join()


def run_box(fabric: str, operation: str, alarms: Alarms) -> Found:
    found = Found()
    with fw.box.serve(fabrics=[fabric], memory="512M") as server, server.connect() as box:
        other = box.create("other", WORDS, "float32")

        def hold_server_back() -> None:
            # The server applies it first, and reads the memory of the next change afterwards.
            other.post.scale(1)

        if operation == "publish":
            like = {"a": np.zeros(WORDS, "int64"), "b": np.zeros(WORDS, "int64")}
            publisher = box.publisher("model", like=like)
            subscriber = server.connect().subscribe("model")

            def read_models() -> None:
                for model in subscriber:
                    found.add(model.version, np.stack([model["a"], model["b"]]))

            with reading(read_models):
                value = 0
                while alarms.go_on(found):
                    value += 1
                    model = {name: np.full(WORDS, value, "int64") for name in like}
                    hold_server_back()
                    alarms.during(lambda: publisher.publish(model))  # noqa: B023
                publisher.free()
            return found
        segment = box.create("segment", WORDS, "int64")
        watched = server.connect().attach("segment")

        def read_segment() -> None:
            for _ in watched.updates(0):
                with contextlib.suppress(fw.NotFound), watched.lease() as lease:
                    found.add(lease.version, lease.array)

        change = segment.write if operation == "write" else segment.accumulate
        with reading(read_segment):
            value = 0
            while alarms.go_on(found):
                value += 1
                memory = box.array(WORDS, "int64")
                memory.array[:] = value
                hold_server_back()
                alarms.during(lambda: change(memory))  # noqa: B023
            segment.free()
    return found


def run_channel(fabric: str, operation: str, alarms: Alarms) -> Found:
    found = Found()
    with fw.Device(fabrics=[fabric]) as near, fw.Device(fabrics=[fabric]) as far:
        accepted: list[fw.Channel] = []
        accepting = threading.Thread(target=lambda: accepted.append(far.accept(30)))
        accepting.start()
        channel = near.connect(far.endpoint, 30)
        accepting.join()
        peer = accepted[0]
        value = 0
        if operation == "channel":
            inbox = peer.publish("inbox", peer.allocate((ROWS, WORDS), "int64"))
            inbox.array[:] = 0
            target = channel.lookup("inbox")
            while alarms.go_on(found):
                for row in range(ROWS):
                    value = value + ROWS - value % ROWS if row == 0 else value + 1
                    source = np.full(WORDS, value, "int64")
                    alarms.during(lambda: channel.write(source, target, row * WORDS))  # noqa: B023
                channel.flush().wait(30)
                for row in range(ROWS):
                    number = found.number_in(inbox.array[row])
                    # Or the row was not written yet.
                    found.check(number == 0 or number % ROWS == row, f"{number} in row {row}")
            return found
        receiver = fw.TensorReceiver(peer, "edge", WORDS, "int64")
        sender = fw.TensorSender(channel, "edge")

        def receive() -> None:
            for number, array in enumerate(receiver, 1):
                found.add(number, array)

        with reading(receive):
            while alarms.go_on(found):
                value += 1
                memory = near.allocate(WORDS, "int64")
                memory.array[:] = value
                alarms.during(lambda: sender.send(memory))  # noqa: B023
                while near.stats().send.used > 64 << 20:
                    time.sleep(0.001)
            sender.close()
    return found


def main() -> None:
    fabric, operation, seed, seconds = sys.argv[1:]
    # Python drops what is raised in a finalizer or in a callback.
    sys.unraisablehook = lambda dropped: None
    alarms = Alarms(int(seed), float(seconds))
    run = run_channel if operation in ("channel", "send") else run_box
    run(fabric, operation, alarms).report(alarms)


if __name__ == "__main__":
    main()
