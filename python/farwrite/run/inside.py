"""What ``farwrite run`` does in the program's processes, right after TensorFlow was imported."""

from __future__ import annotations

import os
import sys

from farwrite.errors import Error
from farwrite.run import entry_points
from farwrite.run.summary import writer

MODE = "FARWRITE_RUN"
"""In the environment: "farwrite" to use it, "stock" to measure only."""


def start() -> None:
    """Load the plug-in and wrap TensorFlow's entry points, or only measure."""
    summary = writer()
    try:
        if os.environ.get(MODE) != "stock":
            _use_farwrite()
    except (Error, OSError, RuntimeError) as error:
        print(
            f"farwrite run: {error}\nfarwrite run: tensors of process {os.getpid()} stay on gRPC",
            file=sys.stderr,
        )
        if summary is not None:
            summary.reason = str(error)
    if summary is not None:
        summary.keep_writing()


def _use_farwrite() -> None:
    import farwrite.tensorflow  # noqa: F401  (loads the plug-in)

    entry_points.wrap()
