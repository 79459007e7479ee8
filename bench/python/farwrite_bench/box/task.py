"""A process of ``bench box``: ``python -m farwrite_bench.box.task``, one turn after the other."""

from __future__ import annotations

import functools
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Protocol

from farwrite_bench.box.add import ELEMENT, BoxAdd, RawAdd
from farwrite_bench.box.box_exchange import LeasingWorker, ReadingWorker
from farwrite_bench.box.orders import Check, Checked, Close, Open, Ran, Ready, Start
from farwrite_bench.box.publishers import box_reader, file_reader, shared_reader
from farwrite_bench.box.stream import READ, WRITE, box_stream, shm_stream, tcp_stream
from farwrite_bench.cluster import child


class Turn(Protocol):
    """What a process does between `Open` and `Close`."""

    def run(self, order: Start) -> Ran:
        """Make the steps."""

    def check(self) -> Checked:
        """Look through what the turn changed."""

    def close(self) -> None:
        """Give everything back."""


TURNS: dict[str, Callable[[Open], Turn]] = {
    "box-shm lease": functools.partial(LeasingWorker, fabric="shm"),
    "box-shm copy": functools.partial(ReadingWorker, fabric="shm"),
    "box-tcp copy": functools.partial(ReadingWorker, fabric="tcp"),
    **{
        f"box-{kind} {what}": functools.partial(box_stream, fabric=kind, what=what)
        for kind in ("shm", "tcp")
        for what in (READ, WRITE)
    },
    **{
        f"box-{kind} {dtype}": functools.partial(BoxAdd, fabric=kind, dtype=dtype)
        for kind in ("shm", "tcp")
        for dtype in ELEMENT
    },
    "raw add": RawAdd,
    **{
        f"box-{kind} subscribe": functools.partial(box_reader, fabric=kind)
        for kind in ("shm", "tcp")
    },
    "file subscribe": file_reader,
    "shared-memory subscribe": shared_reader,
    **{f"raw-shm {what}": functools.partial(shm_stream, what=what) for what in (READ, WRITE)},
    **{f"raw-tcp {what}": functools.partial(tcp_stream, what=what) for what in (READ, WRITE)},
}
"""What an `Open` can name."""


def _main(control: Connection) -> None:
    turns: dict[str, Turn] = {}
    control.send(Ready())
    while True:
        order = control.recv()
        if isinstance(order, Open):
            turns[order.way] = TURNS[order.way](order)
            control.send(Ready())
        elif isinstance(order, Start):
            control.send(turns[order.way].run(order))
        elif isinstance(order, Check):
            control.send(turns[order.way].check())
        elif isinstance(order, Close):
            turns.pop(order.way).close()
            control.send(Ready())


if __name__ == "__main__":
    child.run(_main)
