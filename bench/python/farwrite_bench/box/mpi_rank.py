"""A rank of the emulation under MPI: ``python -m farwrite_bench.box.mpi_rank SOCKET``."""

from __future__ import annotations

import os
import socket
import sys
import time
import traceback
from multiprocessing.connection import Connection
from typing import Any

from farwrite.errors import Internal
from farwrite_bench.box.emulator import emulate, sleep_until
from farwrite_bench.box.mpi_exchange import ELEMENT, EXCHANGES, SERVER, MpiExchange, load_mpi
from farwrite_bench.box.mpi_server import SERVERS, MpiServer
from farwrite_bench.box.orders import Check, Checked, Close, Open, Ran, Ready, Start
from farwrite_bench.cluster.child import Failure


def main() -> int:
    """Connect to the command, and follow its orders until it closes the connection."""
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    line.connect(sys.argv[1])
    control = Connection(line.detach())
    control.send(int(os.environ["OMPI_COMM_WORLD_RANK"]))
    try:
        mpi = load_mpi()
        (_serve if mpi.COMM_WORLD.rank == SERVER else _work)(mpi, control)
    except EOFError:
        return 0  # the command has what it wanted
    except BaseException as error:
        traceback.print_exc()
        control.send(Failure(f"{type(error).__name__}: {error}"))
        sys.stderr.flush()
        os._exit(1)  # the other ranks may never come to MPI_Finalize
    return 0


def _serve(mpi: Any, control: Connection) -> None:
    server: MpiServer | None = None
    control.send(Ready())
    while True:
        order = control.recv()
        if isinstance(order, Open):
            server = SERVERS[order.way](mpi, order.bytes // ELEMENT)
            control.send(Ready())
            continue
        if server is None:
            raise Internal(f"bench box: order {order} before an open; report this")
        if isinstance(order, Start):
            server.serve(order.steps)
            control.send(Ran(order.moment, time.perf_counter()))
        elif isinstance(order, Check):
            control.send(Checked(float(server.weights.min()), float(server.weights.max())))
        elif isinstance(order, Close):
            server.close()
            server = None
            control.send(Ready())


def _work(mpi: Any, control: Connection) -> None:
    exchange: MpiExchange | None = None
    control.send(Ready())
    while True:
        order = control.recv()
        if isinstance(order, Open):
            exchange = EXCHANGES[order.way](mpi, order.bytes // ELEMENT)
            control.send(Ready())
            continue
        if exchange is None:
            raise Internal(f"bench box: order {order} before an open; report this")
        if isinstance(order, Start):
            sleep_until(order.moment)
            seconds = emulate(exchange, order.compute, order.steps)
            exchange.settle()
            control.send(Ran(order.moment, time.perf_counter(), seconds))
        elif isinstance(order, Close):
            exchange.close()
            exchange = None
            control.send(Ready())


if __name__ == "__main__":
    sys.exit(main())
