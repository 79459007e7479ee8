"""What ``farwrite run`` does in the program's processes, right after TensorFlow was imported."""

from __future__ import annotations

import os
import sys

from farwrite.errors import Error
from farwrite.run import entry_points
from farwrite.run.summary import writer

MODE = "FARWRITE_RUN"
"""In the environment: "farwrite" to use it, "stock" to measure only."""
OR_GRPC = "FARWRITE_RUN_OR_GRPC"
"""In the environment: a process that cannot load the plug-in goes on over stock gRPC."""


def start() -> None:
    """Load the plug-in and wrap TensorFlow's entry points, or only measure.

    Raises
    ------
    SystemExit
        If the plug-in cannot be loaded, and the user did not say that gRPC will do.
    """
    summary = writer()
    try:
        if os.environ.get(MODE) != "stock":
            _use_farwrite()
    except (Error, OSError, RuntimeError) as error:
        if summary is not None:
            summary.reason = str(error)
        _not_loaded(str(error))
    if summary is not None:
        summary.keep_writing()


def _not_loaded(why: str) -> None:
    may = bool(os.environ.get(OR_GRPC))
    then = "tensors stay on gRPC" if may else "ended; farwrite run --or-grpc goes on over gRPC"
    print(f"farwrite run: {why}\nfarwrite run: process {os.getpid()}: {then}", file=sys.stderr)
    if not may:
        raise SystemExit(1)


def _use_farwrite() -> None:
    import farwrite.tensorflow  # noqa: F401  (loads the plug-in)

    entry_points.wrap()
