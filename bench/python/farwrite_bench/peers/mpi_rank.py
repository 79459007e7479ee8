"""One side under MPI: ``python -m farwrite_bench.peers.mpi_rank SOCKET``."""

from __future__ import annotations

import sys
from multiprocessing.connection import Connection

from farwrite_bench.box.openmpi import run_rank
from farwrite_bench.peers import side


def _follow(control: Connection) -> None:
    control.send(None)  # as every rank of MPI does when it has started
    side.main(control)


if __name__ == "__main__":
    sys.exit(run_rank(_follow))
