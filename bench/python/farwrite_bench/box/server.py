"""The box's server process: ``python -m farwrite_bench.box.server``, one box after the other."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection

from farwrite import box
from farwrite_bench.box.orders import Close, Open, Ready
from farwrite_bench.box.stream import serve_raw
from farwrite_bench.cluster import child

Served = tuple[str, Callable[[], object]]
"""Where the clients connect, and what ends the service."""


def _box(order: Open) -> Served:
    server = box.serve(memory=order.bytes)
    return server.endpoint, server.close


def _raw(order: Open) -> Served:
    """Serve `order.number` clients of the raw loop over TCP, each in a thread of its own."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=max(order.number, 1))
    threads = [threading.Thread(target=serve_raw, args=(listener,)) for _ in range(order.number)]
    for thread in threads:
        thread.start()

    def close() -> None:
        for thread in threads:
            thread.join()
        listener.close()

    return f"127.0.0.1:{listener.getsockname()[1]}", close


SERVICES = {"box": _box, "raw-tcp": _raw}


def _main(control: Connection) -> None:
    close: Callable[[], object] = lambda: None  # noqa: E731
    control.send(Ready())
    while True:
        order = control.recv()
        if isinstance(order, Open):
            endpoint, close = SERVICES[order.way](order)
            control.send(endpoint)
        elif isinstance(order, Close):
            close()
            control.send(Ready())


if __name__ == "__main__":
    child.run(_main)
