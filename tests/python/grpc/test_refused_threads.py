"""A process that may start no further thread of Farwrite's goes on over TCP."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

from connection_pair import Pair
from grpc_programs import PROGRAMS, GrpcProgram, require_programs
from grpc_transports import FARWRITE, TRANSPORTS

from matrix import injection

require_programs("connection_client", "connection_server")


def test_a_client_without_one_of_the_threads_calls_by_tcp(tmp_path: Path) -> None:
    pair = Pair(TRANSPORTS[-1], tmp_path)
    shell = shutil.which("sh")
    assert shell is not None
    client_command = [PROGRAMS / "connection_client", "call_once", str(pair.ports[0])]
    reasons = []
    with pair.server() as server, injection.orders():
        pair.listening(server)
        refusals = injection.Injection(injection.library())
        for number in itertools.count(1):
            go = tmp_path / f"go_{number}"
            preload = f'LD_PRELOAD="$LD_PRELOAD:{injection.library()}"'
            waits = f'echo process $$ waits; until [ -e "{go}" ]; do sleep 0.02; done; '
            waits += f'{preload} exec "$0" "$@"'
            command = [*FARWRITE, shell, "-c", waits, *client_command]
            with GrpcProgram(command, tmp_path, f"client_{number}") as client:
                client.wait_for(" waits")
                process = int(client.log.split("process ")[1].split()[0])
                refusals.refuse(process, "own_threads", number, number)
                go.touch()
                statistics = client.succeed()
            refusals.end()
            assert statistics is not None
            if not refusals.struck():
                break
            reasons += statistics.stayed
        with pair.client("call_once") as client:
            pair.finish(client)
        assert server.interrupt() is not None
    ours = [reason for reason in reasons if "gRPC's connections" in reason]
    assert len(ours) == 3, reasons  # the hub's; the others are the device's and the link's
    assert all("no thread could be started" in reason for reason in reasons), reasons
