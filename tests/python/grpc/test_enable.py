"""A program that links Farwrite and turns it on by itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from enabling_client import compiled
from grpc_programs import PROGRAMS, GrpcProgram, require_programs
from grpc_transports import FARWRITE

from farwrite_bench.cluster.process import free_ports

require_programs("interop_server")


@pytest.mark.parametrize(
    ("libraries", "said"),
    [
        (("farwrite_grpc", "grpc"), "Enable: \n"),
        (("grpc", "farwrite_grpc"), "Enable: libgrpc comes before libfarwrite_grpc"),
    ],
    ids=["in_front_of_grpc", "behind_grpc"],
)
def test_enable_works_in_front_of_grpc_alone(
    tmp_path: Path, libraries: tuple[str, str], said: str
) -> None:
    program = compiled(tmp_path, *libraries)
    port = free_ports(1)[0]
    with GrpcProgram(
        [*FARWRITE, PROGRAMS / "interop_server", f"--port={port}"], tmp_path, "server"
    ) as server:
        server.wait_until_it_listens(port)
        with GrpcProgram([program, str(port)], tmp_path, "client") as client:
            statistics = client.succeed()
            assert said in client.log
        server.interrupt()
    if libraries[0] == "grpc":
        assert statistics is None
    else:
        assert statistics is not None
        assert statistics.upgraded == 1
        assert statistics.sent_bytes > 0
