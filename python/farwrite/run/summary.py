"""Writes the summary of each process of a run to files, and reads the files back.

With FARWRITE_TF_SUMMARY=FILE, a process writes FILE.<pid>.json and FILE.<pid>.edges when it exits.
Parameter servers are usually killed, and Farwrite installs no signal handler in a user's program.
Under ``farwrite run``, a process therefore also writes the files twenty times a second. A process
with very many edges writes them less often.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

from farwrite import _farwrite
from farwrite.errors import Error
from farwrite.run.meter import METER, peak_memory, wall_seconds

VARIABLE = "FARWRITE_TF_SUMMARY"
PERIOD_SECONDS = 0.05
TRACE_PERIODS = 20
"""Periods between two writes of the trace, which is long."""
MAX_EDGES = 500
"""Limit of the edges in a file; a program with eager copies has very many."""
EDGES_SHARE = 0.05
"""The largest share of its time that a process spends on writing its edges."""


class Summary(TypedDict):
    """The summary of one process."""

    pid: int
    arguments: list[str]
    wall_seconds: float
    peak_memory: int
    """Bytes."""
    socket_bytes_sent: int
    socket_bytes_received: int
    loaded: bool
    """Whether the plug-in is in use."""
    reason: str
    """Why the plug-in is not in use, in a run on Farwrite."""
    stats: dict[str, Any]
    """The result of `farwrite.tensorflow.stats`; empty without the plug-in."""
    description: dict[str, Any]
    edges: list[dict[str, Any]]
    """The edges of `farwrite.tensorflow.edges` with the most bytes."""
    edges_left_out: int
    ended: bool
    """Whether the process wrote this at its end. Otherwise it was killed, or it still runs, and the
    last moment is missing."""


class Writer:
    """Writes this process's summary."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._ended = False
        self.reason = ""
        self.stats: Callable[[], Any] | None = None
        self.describe: Callable[[], Any] | None = None
        self.edges: Callable[[], Any] | None = None

    def summary(self) -> Summary:
        """Return the current summary, without the edges."""
        sockets = METER.look()
        return {
            "pid": os.getpid(),
            "arguments": [sys.executable, *sys.argv],
            "wall_seconds": round(wall_seconds(), 3),
            "peak_memory": peak_memory(),
            "socket_bytes_sent": sockets.sent,
            "socket_bytes_received": sockets.received,
            "loaded": self.stats is not None,
            "reason": self.reason,
            "stats": dict(self.stats()) if self.stats else {},
            "description": dict(self.describe()) if self.describe else {},
            "edges": [],
            "edges_left_out": 0,
            "ended": self._ended,
        }

    def write(self) -> None:
        """Replace both files. A failure to write is ignored, so that the program ends normally."""
        self.write_summary()
        self.write_edges()

    def end(self) -> None:
        """Write what is known when the process exits."""
        self._ended = True
        self.write()

    def write_summary(self) -> None:
        """Replace the file with the counters."""
        with self._lock:
            _replace(f"{self._file}.{os.getpid()}.json", self.summary())

    def write_edges(self) -> None:
        """Replace the file with the edges."""
        if self.edges is None:
            return
        with self._lock:
            edges = self.edges()
            left_out = max(0, len(edges) - MAX_EDGES)
            known = {"edges": edges[:MAX_EDGES], "edges_left_out": left_out}
            _replace(f"{self._file}.{os.getpid()}.edges", known)

    def keep_writing(self) -> None:
        """Write the files periodically from a thread, in forked children as in this process."""
        self._start_thread()
        os.register_at_fork(after_in_child=self._in_child)

    def _in_child(self) -> None:
        self._lock = threading.Lock()
        METER.start_afresh()
        self._start_thread()

    def _start_thread(self) -> None:
        threading.Thread(target=self._run, name="farwrite-summary", daemon=True).start()

    def _run(self) -> None:
        stop = threading.Event()
        next_edges = 0.0
        for period in itertools.count(1):
            stop.wait(PERIOD_SECONDS)
            self.write_summary()
            now = time.monotonic()
            if now >= next_edges:
                self.write_edges()
                next_edges = now + (time.monotonic() - now) / EDGES_SHARE
            if period % TRACE_PERIODS == 0:
                with contextlib.suppress(Error):
                    _farwrite.write_trace()


def _replace(target: str, facts: Any) -> None:
    with contextlib.suppress(OSError):
        Path(f"{target}.part").write_text(json.dumps(facts))
        os.replace(f"{target}.part", target)


_writer: Writer | None = None


def writer() -> Writer | None:
    """Return this process's writer, which writes at exit, or None if no file is set."""
    global _writer
    file = os.environ.get(VARIABLE)
    if _writer is None and file:
        _writer = Writer(file)
        atexit.register(_writer.end)
    return _writer


def read_summaries(file: Path) -> list[Summary]:
    """Read the summaries of the processes of a run, ordered by process id."""
    found: list[Summary] = []
    for path in file.parent.glob(f"{file.name}.*.json"):
        with contextlib.suppress(OSError, ValueError):
            found.append(json.loads(path.read_text()))
            found[-1].update(json.loads(path.with_suffix(".edges").read_text()))
    return sorted(found, key=lambda summary: summary["pid"])
