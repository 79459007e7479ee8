"""Peers that die, stop or take nothing, in a message or in the upgrade, and missing descriptors."""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from connection_pair import Pair
from grpc_programs import PROGRAMS, GrpcProgram, require_programs
from grpc_transports import FARWRITE, TRANSPORTS, Transport
from upgrade_frames import HELLO, PREFACE, READY, SETTINGS, server_nonce, upgrade_frame

require_programs("connection_client", "connection_server")

STOPPED_SECONDS = 20.0
FEWEST_DESCRIPTORS = 12
"""Enough for gRPC, too few for a device."""
OVER_FARWRITE = TRANSPORTS[-1]
BOOT = Path("/proc/sys/kernel/random/boot_id")


@pytest.fixture(params=TRANSPORTS, ids=lambda transport: transport.name)
def transport(request: pytest.FixtureRequest) -> Transport:
    chosen: Transport = request.param
    return chosen


def test_a_call_ends_when_its_server_is_killed_in_a_message(
    transport: Transport, tmp_path: Path
) -> None:
    pair = Pair(transport, tmp_path)
    with pair.server() as server:
        pair.listening(server)
        with pair.client("be_cut_in_a_message") as client:
            client.wait_for("now: kill one of us")
            server.send(signal.SIGKILL)
            pair.finish(client)


def test_a_server_goes_on_when_a_client_is_killed_in_a_message(
    transport: Transport, tmp_path: Path
) -> None:
    pair = Pair(transport, tmp_path)
    with pair.server() as server:
        pair.listening(server)
        for _ in range(3):
            with pair.client("be_cut_in_a_message") as client:
                client.wait_for("now: kill one of us")
                client.send(signal.SIGKILL)
        with pair.client("call_once") as client:
            pair.finish(client)
        pair.interrupt(server)


def test_a_call_outlasts_a_stop_of_its_server(tmp_path: Path) -> None:
    pair = Pair(OVER_FARWRITE, tmp_path)
    with pair.server() as server:
        pair.listening(server)
        with pair.client("outlast_a_stop") as client:
            client.wait_for("now: stop the server and continue it")
            server.stop()
            time.sleep(STOPPED_SECONDS)
            server.send(signal.SIGCONT)
            pair.finish(client)
        pair.interrupt(server)


def test_a_stream_that_nobody_reads_holds_its_sender_back(
    transport: Transport, tmp_path: Path
) -> None:
    pair = Pair(transport, tmp_path)
    with pair.server() as server:
        pair.listening(server)
        with pair.client("fill_a_stream") as client:
            pair.finish(client)
        pair.interrupt(server)


@contextlib.contextmanager
def in_the_upgrade(port: int) -> Iterator[tuple[socket.socket, bytes]]:
    """Give a connection whose client has offered Farwrite, and the nonce of the server's answer."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.settimeout(20)
        local, remote = (
            f"{host} {number}"
            for host, number in (connection.getsockname(), connection.getpeername())
        )
        host = BOOT.read_text().strip()
        hello = upgrade_frame(HELLO, local=local, remote=remote, host=host)
        connection.sendall(PREFACE + SETTINGS + hello)
        received = b""
        while (nonce := server_nonce(received)) is None:
            piece = connection.recv(65536)
            assert piece, "the server closed the connection"
            received += piece
        yield connection, nonce


@pytest.mark.parametrize("last", ["close", "reset", "promise"])
def test_a_client_that_dies_in_the_upgrade_harms_nobody(tmp_path: Path, last: str) -> None:
    pair = Pair(OVER_FARWRITE, tmp_path)
    with pair.server() as server:
        pair.listening(server)
        for _ in range(20):
            with in_the_upgrade(pair.ports[0]) as (connection, nonce):
                if last == "reset":
                    linger = struct.pack("ii", 1, 0)
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                if last == "promise":
                    # The channel that it announces never comes.
                    connection.sendall(upgrade_frame(READY, server_nonce=nonce))
        with pair.client("call_once") as client:
            pair.finish(client)
        assert server.interrupt() is not None


@pytest.mark.parametrize("descriptors", [12, 14, 16, 18, 20, 22, 24, 26, 28])
def test_without_descriptors_a_call_goes_by_tcp(tmp_path: Path, descriptors: int) -> None:
    pair = Pair(OVER_FARWRITE, tmp_path)
    bash = shutil.which("bash")
    assert bash is not None
    limited = (bash, "-c", f'ulimit -n {descriptors}; exec "$0" "$@"')
    with pair.server() as server:
        pair.listening(server)
        command = [PROGRAMS / "connection_client", "call_once", str(pair.ports[0])]
        with GrpcProgram([*FARWRITE, *limited, *command], tmp_path, "limited") as client:
            statistics = client.succeed()
        # Where the last descriptor is in use, the client cannot write its statistics either.
        if descriptors == FEWEST_DESCRIPTORS:
            assert statistics is not None
            (reason,) = statistics.stayed
            assert "Too many open files" in reason
        with pair.client("call_once") as client:
            pair.finish(client)
        assert server.interrupt() is not None


def test_a_connection_that_descriptors_allow_has_enough_for_its_calls(tmp_path: Path) -> None:
    pair = Pair(OVER_FARWRITE, tmp_path)
    bash = shutil.which("bash")
    assert bash is not None
    command = [PROGRAMS / "connection_client", "call_once", str(pair.ports[0])]
    required = {"FARWRITE_GRPC_REQUIRE": "1"}
    with pair.server() as server:
        pair.listening(server)
        for descriptors in range(20, 60):
            limited = (bash, "-c", f'ulimit -n {descriptors}; exec "$0" "$@"')
            name = f"limited_{descriptors}"
            with GrpcProgram([*FARWRITE, *limited, *command], tmp_path, name, required) as client:
                if client.wait() == 0:
                    break
                assert "Farwrite is required" in client.log, client.log
        else:
            pytest.fail("no limit of these is wide enough")
        assert server.interrupt() is not None
