"""A rank of the emulation under MPI: ``python -m farwrite_bench.box.mpi_rank SOCKET``."""

from __future__ import annotations

import sys
import time
from multiprocessing.connection import Connection
from typing import Any

from farwrite_bench.box.emulator import emulate, sleep_until
from farwrite_bench.box.mpi_exchange import ELEMENT, EXCHANGES, SERVER, MpiExchange, load_mpi
from farwrite_bench.box.mpi_server import SERVERS, MpiServer
from farwrite_bench.box.orders import Check, Checked, Close, Open, Ran, Ready, Start
from farwrite_bench.box.rank import run_rank


def main() -> int:
    """Follow the command's orders until it closes the connection."""
    return run_rank(_follow)


def _follow(control: Connection) -> None:
    mpi = load_mpi()
    (_serve if mpi.COMM_WORLD.rank == SERVER else _work)(mpi, control)


def _serve(mpi: Any, control: Connection) -> None:
    servers: dict[str, MpiServer] = {}
    control.send(Ready())
    while True:
        order = control.recv()
        if isinstance(order, Open):
            servers[order.way] = SERVERS[order.way](mpi, order.bytes // ELEMENT)
            control.send(Ready())
        elif isinstance(order, Start):
            servers[order.way].serve(order.steps)
            control.send(Ran(order.moment, time.perf_counter()))
        elif isinstance(order, Check):
            weights = servers[order.way].weights
            control.send(Checked(float(weights.min()), float(weights.max())))
            del weights
        elif isinstance(order, Close):
            servers.pop(order.way).close()
            control.send(Ready())


def _work(mpi: Any, control: Connection) -> None:
    exchanges: dict[str, MpiExchange] = {}
    control.send(Ready())
    while True:
        order = control.recv()
        if isinstance(order, Open):
            exchanges[order.way] = EXCHANGES[order.way](mpi, order.bytes // ELEMENT)
            control.send(Ready())
        elif isinstance(order, Start):
            exchange = exchanges[order.way]
            sleep_until(order.moment)
            seconds = emulate(exchange, order.compute, order.steps)
            exchange.settle()
            control.send(Ran(order.moment, time.perf_counter(), seconds))
            del exchange
        elif isinstance(order, Close):
            exchanges.pop(order.way).close()
            control.send(Ready())


if __name__ == "__main__":
    sys.exit(main())
