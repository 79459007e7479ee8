"""How connections live and end: health, keepalive, GOAWAY, lost servers, forks, many channels.

What the programs check themselves is in tests/grpc/connections; here is what happens to the server.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from connection_pair import Pair
from grpc_programs import require_programs
from grpc_transports import TRANSPORTS, Transport

require_programs("connection_client", "connection_server")

SERVERS_IN_ONE_PROCESS = 4


@pytest.fixture(params=TRANSPORTS, ids=lambda transport: transport.name)
def transport(request: pytest.FixtureRequest) -> Transport:
    chosen: Transport = request.param
    return chosen


@pytest.mark.parametrize(
    "case",
    ["check_health", "list_services", "fork_with_a_channel", "fork_before_the_first_call"],
)
def test_case_passes(transport: Transport, tmp_path: Path, case: str) -> None:
    pair = Pair(transport, tmp_path)
    with pair.server() as server:
        pair.listening(server)
        with pair.client(case) as client:
            pair.finish(client)
        pair.interrupt(server)


def test_many_channels_reach_many_servers_in_one_process(
    transport: Transport, tmp_path: Path
) -> None:
    pair = Pair(transport, tmp_path, ports=SERVERS_IN_ONE_PROCESS)
    with pair.server() as server:
        pair.listening(server)
        with pair.client("open_many_channels") as client:
            pair.finish(client)
        pair.interrupt(server)


def test_calls_outlive_connections_that_end_by_goaway(transport: Transport, tmp_path: Path) -> None:
    pair = Pair(transport, tmp_path)
    with pair.server("--max_connection_age_ms=200") as server:
        pair.listening(server)
        with pair.client("outlive_connections") as client:
            pair.finish(client)
        pair.interrupt(server)


def test_keepalive_ends_a_call_to_a_stopped_server(transport: Transport, tmp_path: Path) -> None:
    pair = Pair(transport, tmp_path)
    with pair.server() as server:
        pair.listening(server)
        with pair.client("keep_alive") as client:
            client.wait_for("now: stop the server")
            server.stop()
            pair.finish(client)
        server.send(signal.SIGCONT)
        pair.interrupt(server)


def test_a_running_call_survives_a_shutdown_in_good_order(
    transport: Transport, tmp_path: Path
) -> None:
    pair = Pair(transport, tmp_path)
    with pair.server() as server:
        pair.listening(server)
        with pair.client("finish_during_shutdown") as client:
            client.wait_for("now: shut the server down")
            pair.interrupt(server)
            pair.finish(client)


def test_a_client_reconnects_to_a_server_that_was_killed(
    transport: Transport, tmp_path: Path
) -> None:
    pair = Pair(transport, tmp_path)
    with pair.client("reconnect") as client:
        client.wait_for("now: start the server")
        for order in ("now: kill the server once", "now: kill the server twice"):
            with pair.server():
                client.wait_for(order)
            # Leaving the context has killed it.
        with pair.server() as last:
            pair.finish(client)
            pair.interrupt(last)
