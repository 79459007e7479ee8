"""The example of docs/how-to/grpc.md: two plain gRPC programs, which move by a prefix alone."""

from __future__ import annotations

from pathlib import Path

from grpc_programs import PROGRAMS, GrpcProgram, require_programs
from grpc_transports import FARWRITE, REQUIRED

from farwrite_bench.cluster.process import free_ports

require_programs("sum_client", "sum_server")

BLOCKS = 10 * 2**24


def test_the_example_sends_its_blocks_by_farwrite(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    with GrpcProgram([*FARWRITE, PROGRAMS / "sum_server", str(port)], tmp_path, "server") as server:
        server.wait_until_it_listens(port)
        with GrpcProgram(
            [*REQUIRED, PROGRAMS / "sum_client", str(port)], tmp_path, "client"
        ) as client:
            sent = client.succeed()
            assert f"sum {2**24}\n" in client.log
        received = server.interrupt()
    assert sent is not None
    assert received is not None
    assert (sent.upgraded, dict(sent.stayed)) == (1, {})
    assert received.received_bytes == sent.sent_bytes > BLOCKS
