"""Traces of transfers in Chrome's trace event format: one file for a program's processes.

Each process writes its own file (FARWRITE_TRACE). Farwrite joins the files when the program has
ended. All timestamps come from CLOCK_MONOTONIC, which the processes of a host share.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from farwrite import _farwrite
from farwrite.cli_parser import writable_file
from farwrite.errors import PermissionDenied

__all__ = ["VARIABLE", "add_option", "merge", "traced"]

VARIABLE = "FARWRITE_TRACE"


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--trace FILE``, which `farwrite.cli` reads."""
    parser.add_argument(
        "--trace",
        type=writable_file,
        metavar="FILE",
        help="also write a trace of the transfers of all processes; open it in ui.perfetto.dev",
    )


@contextlib.contextmanager
def traced(file: Path | None) -> Iterator[None]:
    """Trace this process and its children, and write `file` at the end. None does nothing.

    Raises
    ------
    PermissionDenied
        If `file` cannot be written.
    """
    if file is None:
        yield
        return
    import json  # for the few commands that trace
    import tempfile

    _write(file, "")  # before the work, not after it
    with tempfile.TemporaryDirectory(prefix="farwrite-trace-") as folder:
        before = os.environ.get(VARIABLE)
        os.environ[VARIABLE] = str(Path(folder) / "%p.json")
        try:
            yield
        finally:
            if before is None:
                del os.environ[VARIABLE]
            else:
                os.environ[VARIABLE] = before
            _farwrite.stop_trace()
            pieces = sorted(Path(folder).glob("*.json"))
            whole = merge(pieces)
            _write(file, json.dumps(whole, separators=(",", ":")) + "\n")
            print(
                f"farwrite: {len(whole['traceEvents'])} events of {len(pieces)} processes in"
                f" {file}; open it in https://ui.perfetto.dev",
                file=sys.stderr,
            )


def merge(pieces: Iterable[Path]) -> dict[str, Any]:
    """Join the files of several processes.

    Files that cannot be read, because their process was killed during a write, are left out.
    """
    import json

    events: list[dict[str, Any]] = []
    lost = 0
    for piece in pieces:
        with contextlib.suppress(OSError, ValueError):
            part = json.loads(piece.read_text())
            events += part["traceEvents"]
            lost += part["otherData"]["lost"]
    return {
        "displayTimeUnit": "ns",
        "otherData": {"clock": "CLOCK_MONOTONIC", "lost": lost},
        "traceEvents": events,
    }


def _write(file: Path, text: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    except OSError as error:
        raise PermissionDenied(
            f"trace: cannot write {file}: {error.strerror}; name another file"
        ) from error


def __dir__() -> list[str]:
    """List the interface alone."""
    return sorted(__all__)
