"""A task that only runs a server, as a `Task` or a `ForkedTask`.

Its first message is a `Seat`, and it answers with its readings when the server runs. Every later
message is a `Look`, which it answers with readings. It ends when the parent closes the control
pipe.
"""

from __future__ import annotations

import importlib
from multiprocessing.connection import Connection
from typing import Any

from farwrite_bench.cluster import child
from farwrite_bench.cluster.readings import read
from farwrite_bench.cluster.seat import Look, Seat, start_server
from farwrite_bench.cluster.transport import load_plugin


def main(control: Connection) -> None:
    """Answer the parent until it closes the control pipe."""
    seat: Seat = control.recv()
    load_plugin(seat.transport)
    tf: Any = importlib.import_module("tensorflow")
    _answer(control, seat.task, start_server(tf, seat))


def _answer(control: Connection, task: str, _server: object) -> None:
    order = Look()
    while True:
        control.send(read(task, order.memory))
        order = control.recv()


if __name__ == "__main__":
    child.run(main)
