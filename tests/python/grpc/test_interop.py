"""gRPC's own interop client against gRPC's own interop server, both unmodified.

Left out of the client's cases: those that need an account in a cloud (compute_engine_creds,
jwt_token_creds, oauth2_auth_token, per_rpc_creds, google_default_credentials), and cacheable_unary,
which the C++ client of gRPC 1.51.1 does not have.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from grpc_programs import PROGRAMS, GrpcProgram, require_programs
from grpc_transports import MIXED_TRANSPORTS, TRANSPORTS
from interop_server import InteropServer, interop_server

require_programs("interop_client", "interop_server")

# The client aborts when a case fails, except where it finds that the server lacks what the case is
# about: then it ends well, and its log lacks this text.
CASES = {
    "cancel_after_begin": "Canceling streaming done.",
    "cancel_after_first_response": "Canceling pingpong streaming done.",
    "client_compressed_streaming": "Sending streaming request with compression disabled",
    "client_compressed_unary": "Sending compressed unary request (compression=false)",
    "client_streaming": "Sending request steaming rpc",
    "custom_metadata": "Done testing stream with custom metadata",
    "empty_stream": "empty_stream done.",
    "empty_unary": "Empty rpc done.",
    "half_duplex": "Half-duplex streaming rpc done.",
    "large_unary": "Large unary done.",
    "pick_first_unary": "pick first unary successfully finished",
    "ping_pong": "Ping pong streaming done.",
    "server_compressed_streaming": "(compression=false; size=92653)",
    "server_compressed_unary": "compressed response (compression=false)",
    "server_streaming": "Response streaming done.",
    "special_status_message": "Done testing Special Status Message",
    "status_code_and_message": "Done testing Status and Message",
    "timeout_on_sleeping_server": "Pingpong streaming timeout done.",
    "unimplemented_method": "unimplemented rpc done.",
    "unimplemented_service": "unimplemented service done.",
}
# These cancel or give up at once, perhaps before the client has a connection.
ENDED_EARLY = {"cancel_after_begin", "timeout_on_sleeping_server"}
CALLS = 50


@pytest.fixture(
    scope="module", params=TRANSPORTS + MIXED_TRANSPORTS, ids=lambda transport: transport.name
)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[InteropServer]:
    with interop_server(request.param, tmp_path_factory.mktemp("interop")) as running:
        yield running


def run_client(server: InteropServer, folder: Path, case: str, *options: str) -> str:
    """Run a case over the server's transport; return the client's log."""
    command = [*server.transport.client, PROGRAMS / "interop_client", *server.arguments(case)]
    with GrpcProgram([*command, *options], folder, "interop_client") as client:
        server.transport.check_client(client.succeed(), connects=case not in ENDED_EARLY)
        return client.log


@pytest.mark.parametrize("case", CASES)
def test_case_passes(server: InteropServer, tmp_path: Path, case: str) -> None:
    assert CASES[case] in run_client(server, tmp_path, case)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_slow_consumer_gets_every_message(server: InteropServer, tmp_path: Path) -> None:
    assert "Response streaming done." in run_client(server, tmp_path, "slow_consumer")


def test_a_channel_lives_longer_than_its_calls(server: InteropServer, tmp_path: Path) -> None:
    options = ["--soak_iterations=2", "--iteration_interval=1"]
    log = run_client(server, tmp_path, "long_lived_channel", *options)
    assert "long_lived_channel test done." in log


@pytest.mark.parametrize("case", ["rpc_soak", "channel_soak"])
def test_many_calls_over_one_channel_and_over_many(
    server: InteropServer, tmp_path: Path, case: str
) -> None:
    options = [
        f"--soak_iterations={CALLS}",
        "--soak_overall_timeout_seconds=50",
        "--soak_per_iteration_max_acceptable_latency_ms=20000",
    ]
    log = run_client(server, tmp_path, case, *options)
    assert f"soak test ran: {CALLS} iterations. total_failures: 0" in log
    assert f"{case} test done." in log
    # A descriptor that was closed and is still registered: its successor would wake nothing.
    assert "epoll_ctl failed" not in log
