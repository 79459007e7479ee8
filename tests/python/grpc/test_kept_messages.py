"""Messages that a receiver keeps stay what was sent, whatever the sender does with its memory.

gRPC cuts messages into frames and windows, and frees a part while another is still being read. The
programs compare every byte (tests/grpc/connections/kept_messages.h).
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from connection_pair import Pair
from grpc_programs import require_programs
from grpc_transports import TRANSPORTS, Transport

require_programs("connection_client", "connection_server")

OVER_FARWRITE = TRANSPORTS[-1]
BUSY_PROCESSES = 6
BUSY_SECONDS = 100
LEAST_STATIC_BYTES = 3 * 3_000_000
MOST_BORROWED = 10_000
"""Of 300 MB in each direction: fixed texts in the headers of some hundred calls."""


@pytest.fixture(params=TRANSPORTS, ids=lambda transport: transport.name)
def transport(request: pytest.FixtureRequest) -> Transport:
    chosen: Transport = request.param
    return chosen


@pytest.fixture
def busy_processors() -> Iterator[None]:
    """Other processes that want the processors, so that both ends are often behind."""
    loop = (
        f"import time\nend = time.monotonic() + {BUSY_SECONDS}\nwhile time.monotonic() < end: pass"
    )
    with ExitStack() as stack:
        for _ in range(BUSY_PROCESSES):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", loop]))
            stack.callback(process.kill)
        yield


def keep_messages(pair: Pair, way: str, *options: str) -> None:
    """Run a client that keeps messages; over Farwrite, neither end may copy what windows cut."""
    with pair.server(*options) as server:
        pair.listening(server)
        with pair.client(f"keep_messages_{way}") as client:
            of_client = client.succeed()
        of_server = server.interrupt()
    pair.transport.check_client(of_client)
    pair.transport.check_server(of_server)
    for statistics in filter(None, (of_client, of_server)):
        assert statistics.borrowed_bytes <= MOST_BORROWED, statistics


@pytest.mark.parametrize("way", ["down", "up", "both_ways"])
def test_kept_messages_stay_what_was_sent(transport: Transport, tmp_path: Path, way: str) -> None:
    keep_messages(Pair(transport, tmp_path), way, "--fixed_windows")


@pytest.mark.usefixtures("busy_processors")
def test_kept_messages_stay_what_was_sent_on_busy_processors(tmp_path: Path) -> None:
    keep_messages(Pair(OVER_FARWRITE, tmp_path), "both_ways")


def test_bytes_without_a_reference_count_are_copied_and_counted(tmp_path: Path) -> None:
    pair = Pair(OVER_FARWRITE, tmp_path)
    with pair.server() as server:
        pair.listening(server)
        with pair.client("send_static_messages") as client:
            statistics = client.succeed()
            assert statistics is not None
            assert statistics.borrowed_bytes >= LEAST_STATIC_BYTES, statistics
        pair.interrupt(server)
