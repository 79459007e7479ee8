"""What each process of a run leaves in a file, and how the files are read back.

With FARWRITE_TF_SUMMARY=FILE, a process writes FILE.<pid>.json and FILE.<pid>.edges when it exits.
Parameter servers are usually killed, and no handler of ours goes into a user's program: under
``farwrite run`` the files are written twenty times a second as well, those of programs with very
many edges less often.
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
"""A trace is long: it is written this many times less often."""
MAX_EDGES = 500
"""A program of eager copies has very many."""
EDGES_SHARE = 0.05
"""Of its time, what a process spends at most on writing its edges."""


class Summary(TypedDict):
    """One process."""

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
    """Why not, in a run that wanted it."""
    stats: dict[str, Any]
    """As `farwrite.tensorflow.stats` gives it; empty without the plug-in."""
    description: dict[str, Any]
    edges: list[dict[str, Any]]
    """As `farwrite.tensorflow.edges` gives them: those with the most bytes."""
    edges_left_out: int


class Writer:
    """Writes this process's summary."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._lock = threading.Lock()
        self.reason = ""
        self.stats: Callable[[], Any] | None = None
        self.describe: Callable[[], Any] | None = None
        self.edges: Callable[[], Any] | None = None

    def summary(self) -> Summary:
        """Take stock now."""
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
        }

    def write(self) -> None:
        """Replace both files. A program that ends must not fail for it."""
        self.write_summary()
        self.write_edges()

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
        """Write now and then from a thread, which forked children have too."""
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
    """Return this process's writer, which writes at exit; None where nobody asked for a file."""
    global _writer
    file = os.environ.get(VARIABLE)
    if _writer is None and file:
        _writer = Writer(file)
        atexit.register(_writer.write)
    return _writer


def read_summaries(file: Path) -> list[Summary]:
    """Read what the processes of a run left, by process id."""
    found: list[Summary] = []
    for path in file.parent.glob(f"{file.name}.*.json"):
        with contextlib.suppress(OSError, ValueError):
            found.append(json.loads(path.read_text()))
            found[-1].update(json.loads(path.with_suffix(".edges").read_text()))
    return sorted(found, key=lambda summary: summary["pid"])
