"""Runs an unmodified gRPC program with the bytes of its connections on Farwrite."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from farwrite.run.child import say, started

PRELOAD = "LD_PRELOAD"
MARK = "farwrite-grpc"
"""The name that src/grpc/interpose.cc looks for before it writes."""
NOT_LOADED = 1
"""The exit status if `require` is set and the command ended well without gRPC."""


def run_grpc(command: Sequence[str], library: Path, *, require: bool) -> int:
    """Run `command` to its end, and return its exit status as in a shell.

    Parameters
    ----------
    library : Path
        Of the component, what stands in front of gRPC's library.
    require : bool
        A connection that cannot use Farwrite fails, and so does a command that loads no gRPC of
        the version that Farwrite knows. Otherwise they stay on TCP.

    Raises
    ------
    NotFound
        If there is no such command.
    PermissionDenied
        If the command cannot be started.
    """
    preloaded = (str(library), os.environ.get(PRELOAD, ""))
    # A file without a name: nothing stays behind however this process ends.
    mark = os.memfd_create(MARK)
    try:
        environment = {
            **os.environ,
            PRELOAD: ":".join(filter(None, preloaded)),
            "FARWRITE_GRPC_PRELOADED": "1",
            "FARWRITE_GRPC_LOADED": f"/proc/{os.getpid()}/fd/{mark}",
        }
        if require:
            environment["FARWRITE_GRPC_REQUIRE"] = "1"
        with started(command, environment, None, None) as child:
            status = child.wait()
        used = os.fstat(mark).st_size > 0
    finally:
        os.close(mark)
    # A process that was killed leaves no mark.
    if not used and status >= 0:
        say(
            "farwrite run: no process loaded gRPC 1.51 (libgrpc.so.29), so everything was as"
            " without Farwrite; PyPI's grpcio, Go and other versions have a gRPC of their own"
        )
        if require and status == 0:
            return NOT_LOADED
    return status if status >= 0 else 128 - status
