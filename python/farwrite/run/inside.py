"""Starts ``farwrite run`` in a process of the program, right after TensorFlow is imported."""

from __future__ import annotations

import os
import sys

from farwrite.errors import Error
from farwrite.run import entry_points
from farwrite.run.summary import writer

MODE = "FARWRITE_RUN"
"""Environment variable: "farwrite" uses Farwrite, "stock" only measures."""
OR_GRPC = "FARWRITE_RUN_OR_GRPC"
"""Environment variable: if set, a process without the plug-in continues over stock gRPC."""


def start() -> None:
    """Load the plug-in and wrap TensorFlow's entry points, or only measure.

    Raises
    ------
    SystemExit
        If the plug-in cannot be loaded, and the user did not give ``--or-grpc``.
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
    then = (
        "tensors stay on gRPC"
        if may
        else "ended; to continue over gRPC, use farwrite run --or-grpc"
    )
    print(f"farwrite run: {why}\nfarwrite run: process {os.getpid()}: {then}", file=sys.stderr)
    if not may:
        raise SystemExit(1)


def _use_farwrite() -> None:
    import farwrite.tensorflow  # noqa: F401  (loads the plug-in)

    entry_points.wrap()
