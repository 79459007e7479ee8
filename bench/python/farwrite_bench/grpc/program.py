"""One process of the gRPC program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from farwrite_bench.program import Program

QUIET = {"GRPC_VERBOSITY": "ERROR", "no_grpc_proxy": "127.0.0.1,localhost"}


def start_program(
    name: str, command: Sequence[str], environment: Mapping[str, str], log: Path
) -> Program:
    """Start a process of the program, with these variables besides those of this process."""
    # What runs the program is ended together with it. The program also ends by itself, at the end
    # of its orders, if this process is killed.
    return Program("bench grpc", name, command, {**QUIET, **environment}, log=log, own_group=True)
