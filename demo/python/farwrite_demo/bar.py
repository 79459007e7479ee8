"""A progress bar on standard error for a block of code."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TextIO

WIDTH = 28
REDRAW_SECONDS = 0.08


class Bar:
    """Draws one line for one task. Without a terminal it prints one plain line at the end.

    Parameters
    ----------
    label : str
        Name of the task.
    stream : file, optional
        Stream to draw on; standard error by default.
    """

    share: float | None = None
    """The completed share, from 0 to 1. Without it the bar shows only that time passes."""
    result = ""
    """The text at the end of the line when the task is done."""

    def __init__(self, label: str, stream: TextIO | None = None) -> None:
        self._label = label
        self._stream = sys.stderr if stream is None else stream
        self._ended = threading.Event()
        self._drawer = threading.Thread(target=self._draw, daemon=True)

    def __enter__(self) -> Bar:
        self._started = time.monotonic()
        if self._stream.isatty():
            self._drawer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ended.set()
        if self._stream.isatty():
            self._drawer.join()
            self._stream.write("\n" if kind else f"{self._line('█' * WIDTH)}{self.result}\x1b[K\n")
        elif kind is None:
            self._stream.write(f"{self._label}: {self.result}\n")
        self._stream.flush()

    def _line(self, inside: str) -> str:
        return f"\r  {self._label:<28} ▕{inside}▏  "

    def _draw(self) -> None:
        while not self._ended.wait(REDRAW_SECONDS):
            elapsed = time.monotonic() - self._started
            self._stream.write(f"{self._line(inside(self.share, elapsed))}{elapsed:5.1f} s\x1b[K")
            self._stream.flush()


def inside(share: float | None, elapsed: float) -> str:
    """Draw the inside of a bar; without a known share, a block that moves."""
    if share is not None:
        return ("█" * round(WIDTH * share)).ljust(WIDTH)
    span = WIDTH - 4
    return (" " * (span - abs(int(elapsed * 20) % (2 * span) - span)) + "████").ljust(WIDTH)
