"""gRPC's interop server over each transport, for the tests of C++ and of Ruby clients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from grpc_programs import PROGRAMS, GrpcProgram
from grpc_transports import Transport

from farwrite_bench.cluster.process import free_ports


@dataclass
class InteropServer:
    """A server that runs, and the transport that its clients have to use."""

    transport: Transport
    port: int

    def arguments(self, case: str) -> list[str]:
        """Return what an interop client of any language is told: the server and the case."""
        return ["--server_host=127.0.0.1", f"--server_port={self.port}", f"--test_case={case}"]


@contextmanager
def interop_server(transport: Transport, folder: Path) -> Iterator[InteropServer]:
    """Run a server, and check at the end that it carried its connections as promised."""
    port = free_ports(1)[0]
    command = [*transport.server, PROGRAMS / "interop_server", f"--port={port}"]
    with GrpcProgram(command, folder, "interop_server") as server:
        server.wait_until_it_listens(port)
        yield InteropServer(transport, port)
        transport.check_server(server.interrupt())
