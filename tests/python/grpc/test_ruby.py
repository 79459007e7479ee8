"""gRPC's own Ruby interop client, unmodified, against the C++ interop server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from grpc_programs import REPOSITORY, SOURCE, GrpcProgram, require_programs
from grpc_transports import TRANSPORTS
from interop_server import InteropServer, interop_server

require_programs("interop_server")

CLIENT = SOURCE / "src/ruby/pb/test/client.rb"
# What the machine has installed was not unpacked again.
ROOTS = [REPOSITORY / ".cache/debs/usr", Path("/usr")]
# The client asserts within each; so few because Ruby takes long to start.
CASES = ["large_unary", "client_compressed_streaming", "ping_pong", "cancel_after_first_response"]


def found(*patterns: str) -> list[str]:
    """Return the paths below each root that match."""
    return [str(path) for root in ROOTS for pattern in patterns for path in root.glob(pattern)]


RUBY = found("bin/ruby")
MODULE = found("lib/*/rubygems-integration/*/gems/grpc-*/src/ruby/lib")
# What a Ruby that is unpacked and not installed needs to find its parts.
ENVIRONMENT = {
    "LD_LIBRARY_PATH": ":".join(found("lib/*-linux-gnu*")),
    "RUBYLIB": ":".join(
        [
            *found("lib/ruby/vendor_ruby", "lib/*/ruby/vendor_ruby/*"),
            *found("lib/ruby/[0-9]*", "lib/*/ruby/[0-9]*"),
            *MODULE,
        ]
    ),
    "GEM_PATH": ":".join(
        found(
            "share/rubygems-integration/all",
            "lib/*/rubygems-integration/[0-9]*",
            "lib/ruby/gems/[0-9]*",
        )
    ),
}
if not (RUBY and MODULE):
    pytest.skip("Ruby's gRPC is not unpacked; type: tools/fetch_grpc.sh", allow_module_level=True)


@pytest.fixture(scope="module", params=TRANSPORTS, ids=lambda transport: transport.name)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[InteropServer]:
    with interop_server(request.param, tmp_path_factory.mktemp("ruby")) as running:
        yield running


@pytest.mark.parametrize("case", CASES)
def test_ruby_case_passes(server: InteropServer, tmp_path: Path, case: str) -> None:
    command = [*server.transport.client, RUBY[0], CLIENT, *server.arguments(case)]
    with GrpcProgram(command, tmp_path, "ruby", ENVIRONMENT) as client:
        server.transport.check_client(client.succeed())
        assert f'"OK: {case}"' in client.log
