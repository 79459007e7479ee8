"""One side of a library with a Python API: ``python -m farwrite_bench.peers.side``."""

from __future__ import annotations

import contextlib
import traceback
from multiprocessing.connection import Connection

from farwrite.errors import Internal
from farwrite_bench.cluster.child import Failure, run
from farwrite_bench.peers.end import End, Start
from farwrite_bench.peers.loop import Connect, Loop, Opened, Ready
from farwrite_bench.peers.loops import Checker, run_receiver, run_sender


def follow(control: Connection) -> None:
    """Open the adapter's end, and follow the command's orders until it closes the connection."""
    start = control.recv()
    if not isinstance(start, Start):
        raise Internal(f"bench peers: the first order is {start!r}; report this")
    end: End = start.end(start.setup)
    with contextlib.closing(end):
        follow_with(end, control)


def follow_with(end: End, control: Connection) -> None:
    """Follow the orders with an end that is open."""
    control.send(Opened(end.address, end.settings))
    while True:
        order = control.recv()
        if isinstance(order, Connect):
            end.connect(order.address)
            control.send(Ready())
        elif isinstance(order, Loop) and end.setup.receives:
            checker = Checker(end, order)
            end.start(order, checker)
            control.send(Ready())
            control.send(run_receiver(end, order, checker))
        elif isinstance(order, Loop):
            control.send(run_sender(end, order))
        else:
            raise Internal(f"bench peers: unknown order {order!r}; report this")


def follow_to_the_end(control: Connection) -> None:
    """Follow the orders in a process that goes on afterwards; an error is the last answer."""
    try:
        follow(control)
    except EOFError:
        pass  # the command has what it wanted
    except Exception as error:
        traceback.print_exc()
        with contextlib.suppress(OSError):
            control.send(Failure(f"{type(error).__name__}: {error}"))


if __name__ == "__main__":
    run(follow)
