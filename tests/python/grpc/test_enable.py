"""A program that links Farwrite and turns it on by itself."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import sanitized
from grpc_programs import PROGRAMS, REPOSITORY, GrpcProgram, require_programs
from grpc_transports import FARWRITE

from farwrite_bench.cluster.process import free_ports

require_programs("interop_server")

PACKAGE = sanitized.COMPONENT
DEBS = REPOSITORY / ".cache/debs/usr"


def compiled(folder: Path, *libraries: str) -> Path:
    """Compile enabling_client, linked against the libraries in this order; return its path."""
    prefix = DEBS if (DEBS / "include/grpc/grpc.h").exists() else Path("/usr")
    (grpc,) = prefix.glob("lib/*/libgrpc.so")
    program = folder / "enabling_client"
    subprocess.run(
        [
            "g++",
            "-std=c++17",
            "-Wall",
            "-Wextra",
            "-Werror",
            *sanitized.COMPILE,
            f"-I{prefix / 'include'}",
            f"-I{REPOSITORY / 'src/grpc/include'}",
            REPOSITORY / "tests/grpc/enabling_client.cc",
            f"-L{PACKAGE}",
            f"-L{grpc.parent}",
            # RPATH rather than RUNPATH, because Debian's libraries find each other through it.
            f"-Wl,--disable-new-dtags,-rpath,{PACKAGE},-rpath,{grpc.parent}",
            *(f"-l{library}" for library in libraries),
            "-lgpr",
            "-o",
            program,
        ],
        check=True,
    )
    return program


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
