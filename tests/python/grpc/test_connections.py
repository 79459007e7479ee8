"""How connections live and end: health, keepalive, GOAWAY, lost servers, forks, many channels.

What the programs check themselves is in tests/grpc/connections; here is what happens to the server.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from grpc_programs import PROGRAMS, GrpcProgram, require_programs
from grpc_transports import TRANSPORTS, Transport

from farwrite_bench.cluster.process import free_ports

require_programs("connection_client", "connection_server")

SERVERS_IN_ONE_PROCESS = 4


@pytest.fixture(params=TRANSPORTS, ids=lambda transport: transport.name)
def transport(request: pytest.FixtureRequest) -> Transport:
    chosen: Transport = request.param
    return chosen


class Pair:
    """A server and a client over a transport; neither runs until it is started."""

    def __init__(self, transport: Transport, folder: Path, ports: int = 1) -> None:
        self.transport = transport
        self._folder = folder
        self._ports = free_ports(ports)
        self._servers = 0

    def server(self, *options: str) -> GrpcProgram:
        """Start a server on the ports, and return without waiting for it."""
        self._servers += 1
        return GrpcProgram(
            [
                *self.transport.server,
                PROGRAMS / "connection_server",
                *options,
                *map(str, self._ports),
            ],
            self._folder,
            f"server_{self._servers}",
        )

    def listening(self, server: GrpcProgram) -> GrpcProgram:
        """Wait until the server listens on every port, and return it."""
        for port in self._ports:
            server.wait_until_it_listens(port)
        return server

    def client(self, case: str) -> GrpcProgram:
        """Start a client."""
        return GrpcProgram(
            [
                *self.transport.client,
                PROGRAMS / "connection_client",
                case,
                *map(str, self._ports),
            ],
            self._folder,
            "client",
        )

    def finish(self, client: GrpcProgram) -> None:
        """Wait until the client ends, and check that it succeeded over the transport."""
        self.transport.check_client(client.succeed())

    def interrupt(self, server: GrpcProgram) -> None:
        """End the server in good order, and check that it used the transport."""
        self.transport.check_server(server.interrupt())


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
            server.send(signal.SIGSTOP)
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
