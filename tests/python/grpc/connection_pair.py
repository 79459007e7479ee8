"""A connection_server and a connection_client (tests/grpc/connections) over a transport."""

from __future__ import annotations

from pathlib import Path

from grpc_programs import PROGRAMS, GrpcProgram
from grpc_transports import Transport

from farwrite_bench.cluster.process import free_ports


class Pair:
    """A server and a client over a transport; neither runs until it is started."""

    def __init__(self, transport: Transport, folder: Path, ports: int = 1) -> None:
        self.transport = transport
        self._folder = folder
        self.ports = free_ports(ports)
        self._servers = 0

    def server(self, *options: str) -> GrpcProgram:
        """Start a server on the ports, and return without waiting for it."""
        self._servers += 1
        return GrpcProgram(
            [
                *self.transport.server,
                PROGRAMS / "connection_server",
                *options,
                *map(str, self.ports),
            ],
            self._folder,
            f"server_{self._servers}",
        )

    def listening(self, server: GrpcProgram) -> GrpcProgram:
        """Wait until the server listens on every port, and return it."""
        for port in self.ports:
            server.wait_until_it_listens(port)
        return server

    def client(self, case: str) -> GrpcProgram:
        """Start a client."""
        return GrpcProgram(
            [
                *self.transport.client,
                PROGRAMS / "connection_client",
                case,
                *map(str, self.ports),
            ],
            self._folder,
            "client",
        )

    def finish(self, client: GrpcProgram) -> None:
        """Wait until the client ends, and check that it succeeded over the transport."""
        self.transport.check_client(client.succeed())

    def interrupt(self, server: GrpcProgram) -> None:
        """End the server normally, and check that it used the transport."""
        self.transport.check_server(server.interrupt())
