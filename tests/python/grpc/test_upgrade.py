"""Which connections move to Farwrite, which stay on TCP, and what a hostile peer achieves."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from grpc_programs import PROGRAMS, GrpcProgram, require_programs
from grpc_statistics import Statistics
from grpc_transports import FARWRITE, REQUIRED
from port_forward import port_forward
from upgrade_frames import (
    ANSWER,
    HELLO,
    MAGIC,
    PREFACE,
    READY,
    SETTINGS,
    SWITCH,
    UPGRADE_TYPE,
    http2_frame,
    upgrade_frame,
)

from farwrite_bench.cluster.process import free_ports

require_programs("interop_client", "interop_server")

TCP_FABRIC = {"FARWRITE_GRPC_FABRICS": "tcp"}
SHARED_MEMORY = {"FARWRITE_GRPC_FABRICS": "shm"}


@contextlib.contextmanager
def server(folder: Path, environment: dict[str, str] | None = None) -> Iterator[int]:
    """Run gRPC's interop server on Farwrite; give its port."""
    port = free_ports(1)[0]
    command = [*FARWRITE, PROGRAMS / "interop_server", f"--port={port}"]
    with GrpcProgram(command, folder, "server", environment) as running:
        running.wait_until_it_listens(port)
        yield port
        running.interrupt()


def start_client(
    folder: Path,
    port: int,
    prefix: tuple[str, ...] = FARWRITE,
    environment: dict[str, str] | None = None,
    case: str = "rpc_soak",
) -> GrpcProgram:
    command = [
        *prefix,
        PROGRAMS / "interop_client",
        "--server_host=127.0.0.1",
        f"--server_port={port}",
        f"--test_case={case}",
        "--soak_iterations=200",  # longer than a busy machine takes to decide
        "--soak_overall_timeout_seconds=50",
        "--soak_per_iteration_max_acceptable_latency_ms=20000",
    ]
    return GrpcProgram(command, folder, "client", environment)


def calls(
    folder: Path,
    port: int,
    prefix: tuple[str, ...] = FARWRITE,
    environment: dict[str, str] | None = None,
) -> Statistics:
    """Call the server some times, which must succeed; return the client's statistics."""
    with start_client(folder, port, prefix, environment) as client:
        statistics = client.succeed()
    assert statistics is not None
    return statistics


@pytest.mark.parametrize("fabric", [TCP_FABRIC, SHARED_MEMORY], ids=["tcp", "shm"])
def test_a_fabric_may_be_chosen(tmp_path: Path, fabric: dict[str, str]) -> None:
    with server(tmp_path, fabric) as port:
        statistics = calls(tmp_path, port, REQUIRED, fabric)
    assert statistics.upgraded == 1
    # Ten calls or more of 271,828 bytes, with 314,159 bytes back.
    assert statistics.sent_bytes > 2_700_000
    assert statistics.received_bytes > 3_100_000


@pytest.mark.parametrize("same", [True, False])
def test_both_prove_the_token(tmp_path: Path, same: bool) -> None:
    with server(tmp_path, {"FARWRITE_TOKEN": "ours"}) as port:
        token = "ours" if same else "another"
        statistics = calls(tmp_path, port, environment={"FARWRITE_TOKEN": token})
    assert statistics.upgraded == same
    if not same:
        (reason,) = statistics.stayed
        assert "token" in reason


def test_behind_a_proxy_a_connection_stays_on_tcp(tmp_path: Path) -> None:
    with server(tmp_path, TCP_FABRIC) as port, port_forward(port) as forwarded:
        statistics = calls(tmp_path, forwarded, environment=TCP_FABRIC)
    assert statistics.upgraded == 0
    (reason,) = statistics.stayed
    assert "do not see the same addresses" in reason


def test_behind_a_proxy_shared_memory_proves_one_host(tmp_path: Path) -> None:
    with server(tmp_path, SHARED_MEMORY) as port, port_forward(port) as forwarded:
        statistics = calls(tmp_path, forwarded, REQUIRED, SHARED_MEMORY)
    assert statistics.upgraded == 1


def test_a_required_upgrade_that_a_peer_does_not_make_fails(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    with GrpcProgram([PROGRAMS / "interop_server", f"--port={port}"], tmp_path, "server") as plain:
        plain.wait_until_it_listens(port)
        with start_client(tmp_path, port, REQUIRED, case="empty_unary") as client:
            client.wait_for("Farwrite is required")
        plain.interrupt()


def exchange(port: int, sent: bytes) -> bytes:
    """Send bytes to the server; return all that it sends until it closes, or for a while."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.settimeout(20)
        connection.sendall(sent)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
        return answer


@pytest.mark.parametrize(
    "frames",
    [
        upgrade_frame(READY),
        upgrade_frame(SWITCH),
        upgrade_frame(ANSWER),
        http2_frame(UPGRADE_TYPE, MAGIC + b"\x01" + bytes(40)),
        http2_frame(UPGRADE_TYPE, b"nonsense" + bytes(40)),
    ],
    ids=["ready", "switch", "answer", "truncated", "nonsense"],
)
def test_a_client_that_breaks_the_rules_is_dropped_and_nobody_else(
    tmp_path: Path, frames: bytes
) -> None:
    with server(tmp_path) as port:
        exchange(port, PREFACE + SETTINGS + frames)
        assert calls(tmp_path, port, REQUIRED).upgraded == 1


def test_a_newer_client_stays_on_tcp(tmp_path: Path) -> None:
    with server(tmp_path) as port:
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.settimeout(20)
            connection.sendall(PREFACE + SETTINGS + upgrade_frame(HELLO, version=9))
            # It goes on as HTTP/2: a PING is answered.
            connection.sendall(http2_frame(0x6, b"12345678"))
            answer = b""
            while b"12345678" not in answer:
                piece = connection.recv(65536)
                assert piece, "the server closed the connection"
                answer += piece
        assert bytes([UPGRADE_TYPE]) + bytes(5) + MAGIC not in answer
        assert calls(tmp_path, port, REQUIRED).upgraded == 1


@pytest.mark.parametrize("kind", [ANSWER, READY, SWITCH])
def test_a_server_that_breaks_the_rules_ends_one_connection(tmp_path: Path, kind: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)
        port = listener.getsockname()[1]
        with start_client(tmp_path, port, case="empty_unary") as client:
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(20)
                connection.sendall(SETTINGS + upgrade_frame(kind))
                while connection.recv(65536):
                    pass  # until the client closes it
            # The call fails for the reason, and the client ends by its own check.
            client.wait_for("the upgrade to Farwrite")
            assert "SIGSEGV" not in client.log


@pytest.mark.parametrize("offered", [False, True])
def test_a_required_connection_ends_with_a_server_that_dies_in_the_upgrade(
    tmp_path: Path, offered: bool
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)
        with start_client(
            tmp_path, listener.getsockname()[1], REQUIRED, case="empty_unary"
        ) as client:
            connection, _ = listener.accept()
            listener.close()  # so that the call is not made again
            with connection:
                connection.settimeout(20)
                connection.sendall(SETTINGS)
                received = b""
                while offered and MAGIC not in received:
                    received += connection.recv(65536)
            client.wait_for("Error status code: 14")


def test_a_program_without_grpc_is_told(tmp_path: Path) -> None:
    def run(*options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "farwrite", "run", "--grpc", *options, "--", "echo", "hello"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            cwd=tmp_path,
        )

    preferred = run()
    assert (preferred.returncode, preferred.stdout) == (0, "hello\n")
    assert "no process loaded gRPC 1.51" in preferred.stderr
    assert run("--require").returncode == 1


def test_a_run_that_is_killed_leaves_no_file(tmp_path: Path) -> None:
    program = ("sh", "-c", "echo started; exec sleep 60")
    command = (sys.executable, "-m", "farwrite", "run", "--grpc", "--", *program)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    with subprocess.Popen(
        command,
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"started\n"
        os.killpg(run.pid, signal.SIGKILL)
    assert list(temporary.iterdir()) == []
