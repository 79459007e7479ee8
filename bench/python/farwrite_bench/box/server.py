"""The serving process: ``python -m farwrite_bench.box.server``, one service after the other."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection

from farwrite import box
from farwrite.errors import Internal
from farwrite_bench.box.orders import Close, Open, Ready, Start
from farwrite_bench.box.publishers import PUBLISHERS, SPARE_BYTES, Publisher
from farwrite_bench.box.stream import serve_raw
from farwrite_bench.cluster import child

Served = tuple[Publisher | None, str, Callable[[], object]]
"""What publishes, if that is the service; where the clients connect; and what ends the service."""


def _box(order: Open) -> Served:
    server = box.serve(memory=order.bytes + SPARE_BYTES)
    return None, server.endpoint, server.close


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

    return None, f"127.0.0.1:{listener.getsockname()[1]}", close


SERVICES: dict[str, Callable[[Open], Served]] = {
    "box": _box,
    "raw-tcp": _raw,
    **{f"publish {kind}": make for kind, make in PUBLISHERS.items()},
}


def _main(control: Connection) -> None:
    served: Served | None = None
    control.send(Ready())
    while True:
        order = control.recv()
        if isinstance(order, Open):
            served = SERVICES[order.way](order)
            control.send(served[1])
            continue
        if served is None:
            raise Internal(f"bench box: {order} before an Open; report this")
        publisher, _, close = served
        if isinstance(order, Start) and publisher is not None:
            control.send(publisher.run(order))
        elif isinstance(order, Close):
            close()
            served = publisher = None
            control.send(Ready())


if __name__ == "__main__":
    child.run(_main)
