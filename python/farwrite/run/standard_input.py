"""Gives the same standard input to several runs of one command."""

from __future__ import annotations

import contextlib
import os
import select
import stat
import sys
import tempfile
import threading
from collections.abc import Iterator
from typing import IO

PIECE = 2**16
LOOK_SECONDS = 0.1


class StandardInput:
    """Gives this process's standard input to each run, from its start.

    The runs share a terminal or a device. Each run reads a file from the same position. The bytes
    of a pipe or a socket are passed on and also stored in a temporary file. The next run reads
    the stored bytes first, and then the rest from the pipe. No run waits for the pipe's end.
    """

    def __init__(self) -> None:
        self._source: int | None = None
        self._start: int | None = None
        self._seen: IO[bytes] | None = None
        try:
            number = sys.stdin.fileno()
            mode = os.fstat(number).st_mode
        except (ValueError, OSError):  # closed, or replaced by an object
            return
        if stat.S_ISREG(mode):
            self._source, self._start = number, os.lseek(number, 0, os.SEEK_CUR)
        elif stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
            self._source, self._seen = number, tempfile.TemporaryFile()  # noqa: SIM115

    def close(self) -> None:
        """Delete the stored bytes."""
        if self._seen is not None:
            self._seen.close()

    @contextlib.contextmanager
    def for_one_run(self) -> Iterator[int | None]:
        """Yield the descriptor of a run's standard input; None inherits this process's."""
        if self._start is not None and self._source is not None:
            os.lseek(self._source, self._start, os.SEEK_SET)
        if self._seen is None:
            yield None
            return
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        ended = threading.Event()
        feeder = threading.Thread(target=self._feed, args=(writing, ended), daemon=True)
        feeder.start()
        try:
            yield reading
        finally:
            os.close(reading)
            ended.set()
            feeder.join()

    def _feed(self, target: int, ended: threading.Event) -> None:
        assert self._seen is not None and self._source is not None
        with contextlib.suppress(BrokenPipeError), os.fdopen(target, "wb", buffering=0) as pipe:
            self._seen.seek(0)
            while piece := self._seen.read(PIECE):
                if not _write(pipe.fileno(), piece, ended):
                    return
            while not ended.is_set():
                if not select.select([self._source], [], [], LOOK_SECONDS)[0]:
                    continue
                piece = os.read(self._source, PIECE)
                if not piece:
                    return
                self._seen.write(piece)
                if not _write(pipe.fileno(), piece, ended):
                    return


def _write(target: int, piece: bytes, ended: threading.Event) -> bool:
    """Write all of `piece`, unless the run ends first."""
    while piece:
        if ended.is_set():
            return False
        if select.select([], [target], [], LOOK_SECONDS)[1]:
            with contextlib.suppress(BlockingIOError):
                piece = piece[os.write(target, piece) :]
    return True
