"""The processes that ``bench box`` measures, and the orders to them.

A process is a `Task` of this module. It opens turns, of which it runs one at a time. The ranks of
MPI follow the same orders.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from farwrite import box
from farwrite_bench import _native
from farwrite_bench.cluster.control import Control
from farwrite_bench.cluster.process import Task
from farwrite_bench.sizes import MIB

ORDER_SECONDS = 300.0
"""The longest that any order may take."""
START_SECONDS = 0.05
"""From an order to start until all start."""
SPARE_BYTES = 128 * MIB
"""Memory of a box besides its segments: the pool that it takes at its start, and its records."""


@dataclass(frozen=True)
class Turn:
    """What a process can do from the order `Open` to the order `Close`."""

    run: Callable[..., object] | None = None
    weights: Callable[[], Any] | None = None
    """Returns the array that the turn changes."""
    place: str = ""
    """Where other processes connect."""

    def ends(self) -> tuple[float, float]:
        """Return the lowest and the highest element of the array."""
        assert self.weights is not None, "the turn changes an array"
        weights = self.weights().astype(np.float32, copy=False)
        return float(weights.min()), float(weights.max())


@dataclass(frozen=True)
class Open:
    """Take the memory of a turn and connect to the others. The answer is `Turn.place`."""

    way: str
    """The turn's name in the next orders."""
    make: Callable[..., AbstractContextManager[Turn]]
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Call:
    """Call a method of a turn. The answer is what it returns."""

    way: str
    method: str
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Close:
    """Give the memory of a turn back."""

    way: str


def main(control: Connection) -> None:
    """Follow orders until the command closes the connection."""
    opened: dict[str, tuple[ExitStack, Turn]] = {}
    answer: object = None
    while True:
        control.send(answer)
        answer, order = None, control.recv()
        if isinstance(order, Open):
            stack = ExitStack()
            turn = stack.enter_context(order.make(*order.arguments))
            opened[order.way] = stack, turn
            answer = turn.place
        elif isinstance(order, Call):
            _, turn = opened[order.way]
            answer = getattr(turn, order.method)(*order.arguments)
        elif isinstance(order, Close):
            stack, turn = opened.pop(order.way)
            stack.close()


def sleep_until(moment: float) -> None:
    """Sleep until `time.perf_counter`, which all processes of a machine share, is `moment`."""
    while (left := moment - time.perf_counter()) > 0:
        time.sleep(left)


def repeated(
    step: Callable[[], object], finish: Callable[[], object] = lambda: None
) -> Callable[[float, int], tuple[float, float]]:
    """Return what makes `steps` steps from `moment` on, and returns when it began and ended."""

    def run(moment: float, steps: int) -> tuple[float, float]:
        sleep_until(moment)
        began = time.perf_counter()
        for _ in range(steps):
            step()
        finish()
        return began, time.perf_counter()

    return run


@contextlib.contextmanager
def served_box(memory: int) -> Iterator[Turn]:
    """Serve a box with `memory` bytes for segments."""
    with box.serve(memory=memory + SPARE_BYTES) as server:
        yield Turn(place=server.endpoint)


@contextlib.contextmanager
def served_socket(request: int, answer: int) -> Iterator[Turn]:
    """Answer one plain TCP connection: `request` bytes with `answer` bytes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            try:
                connection, _ = listener.accept()
            except OSError:
                return  # nothing has connected
            with connection:
                _native.answer_requests(connection.fileno(), request, answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield Turn(place=str(listener.getsockname()[1]))
        finally:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            thread.join()


@contextlib.contextmanager
def processes(count: int, logs: Path, name: str = "process") -> Iterator[list[Task]]:
    """Start `count` processes."""
    with ExitStack() as stack:
        tasks = [
            stack.enter_context(
                Task(f"{name} {number}", __name__, {}, logs / f"{name}-{number}.log")
            )
            for number in range(count)
        ]
        for task in tasks:
            task.receive()
        yield tasks


def ask(members: Sequence[Control], *orders: object) -> list[Any]:
    """Send one order to all members, or its own to each, and return all answers."""
    for member, order in zip(members, orders * (len(members) // len(orders)), strict=True):
        member.send(order)
    return [member.receive(ORDER_SECONDS) for member in members]


@contextlib.contextmanager
def opened(
    members: Sequence[Control], way: str, make: Callable[..., Any], *arguments: object
) -> Iterator[str]:
    """Open a turn in all members until the end of the block; yields its place in the last one."""
    *_, place = ask(members, Open(way, make, arguments))
    yield place
    ask(members, Close(way))


@contextlib.contextmanager
def serving(logs: Path, make: Callable[..., Any], *arguments: object) -> Iterator[str]:
    """Open a turn in a new process until the end of the block; yields its place."""
    with processes(1, logs, "server") as server, opened(server, "server", make, *arguments) as at:
        yield at
