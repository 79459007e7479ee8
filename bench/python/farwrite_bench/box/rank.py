"""A rank of MPI as a child of the command: its connection, and its end."""

from __future__ import annotations

import os
import socket
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection

from farwrite_bench.cluster.child import Failure


def run_rank(follow: Callable[[Connection], None]) -> int:
    """Connect to the command at the first argument, and follow its orders until it closes.

    A rank that fails ends at once, because the other ranks may never come to MPI_Finalize.
    """
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    line.connect(sys.argv[1])
    control = Connection(line.detach())
    control.send(int(os.environ["OMPI_COMM_WORLD_RANK"]))
    try:
        follow(control)
    except EOFError:
        pass  # the command has what it wanted
    except BaseException as error:
        traceback.print_exc()
        control.send(Failure(f"{type(error).__name__}: {error}"))
        sys.stderr.flush()
        os._exit(1)
    return 0
