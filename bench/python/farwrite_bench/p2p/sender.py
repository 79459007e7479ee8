"""The sending process of ``farwrite bench p2p``: ``python -m farwrite_bench.p2p.sender``."""

from __future__ import annotations

import os
from multiprocessing.connection import Connection

from farwrite.errors import Error
from farwrite_bench._native import Role
from farwrite_bench.cluster.child import run
from farwrite_bench.p2p.pair import Begin, open_peer, prepare, run_phase


def follow(control: Connection) -> None:
    """Run the phases that the parent orders, until it closes the pipe."""
    begin: Begin = control.recv()
    stage = os.open(begin.stage, os.O_RDWR | os.O_CLOEXEC)
    peer = open_peer(Role.SENDER, begin.setup, stage)
    os.close(stage)
    try:
        control.send(None)
        control.send(prepare(peer, begin.endpoint))
        while True:
            control.send(run_phase(peer, control.recv()))
    except Error:
        peer.give_up()
        raise
    except EOFError:
        peer.close()
        raise


if __name__ == "__main__":
    run(follow)
