"""A task that only runs a server, as a `Task` or a `ForkedTask`; and how every task answers.

Its first message is a `Seat`. It answers with its readings when the server runs.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NoReturn

from farwrite_bench.cluster.readings import read
from farwrite_bench.cluster.seat import Look, Seat, start_server
from farwrite_bench.cluster.transport import load_plugin


def main(control: Connection) -> None:
    """Answer the parent until it closes the control pipe."""
    seat: Seat = control.recv()
    load_plugin(seat.transport)
    tf: Any = importlib.import_module("tensorflow")
    _server = start_server(tf, seat)
    answer(control, seat.task)


def answer(
    control: Connection, task: str, act: Callable[[Any], object] = lambda order: order
) -> NoReturn:
    """Send readings, and answer the parent's orders until it closes the control pipe.

    A `Look` is answered with readings, and any other order with what `act` returns of it.
    """
    order: object = Look()
    while True:
        control.send(read(task, order.memory) if isinstance(order, Look) else act(order))
        order = control.recv()
