"""A progress bar on standard error for a block of code."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TextIO

WIDTH = 28
REDRAW_INTERVAL = 0.08


class Bar:
    """Draws one line for one task. Without a terminal it prints one plain line at the end.

    Parameters
    ----------
    label : str
        Name of the task.
    stream : file, optional
        Stream to draw on; standard error by default.
    """

    def __init__(self, label: str, stream: TextIO | None = None) -> None:
        self._label = label
        self._stream = sys.stderr if stream is None else stream
        self._live = self._stream.isatty()
        self._fraction: float | None = None
        self._result = ""
        self._ended = threading.Event()
        self._start = time.monotonic()
        self._drawer = threading.Thread(target=self._draw, daemon=True)

    def progress(self, fraction: float) -> None:
        """Set the completed share, from 0 to 1. Without it the bar shows only that time passes."""
        self._fraction = fraction

    def result(self, text: str) -> None:
        """Set the text at the end of the line when the task is done."""
        self._result = text

    def __enter__(self) -> Bar:
        self._start = time.monotonic()
        if self._live:
            self._drawer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ended.set()
        if self._live:
            self._drawer.join()
        if kind is not None:
            self._stream.write("\n" if self._live else "")
        elif self._live:
            self._stream.write(f"\r{self._line('█' * WIDTH)}  {self._result}\x1b[K\n")
        else:
            self._stream.write(f"{self._label}: {self._result}\n")
        self._stream.flush()

    def _line(self, drawing: str) -> str:
        return f"  {self._label:<28} ▕{drawing}▏"

    def _draw(self) -> None:
        while not self._ended.wait(REDRAW_INTERVAL):
            elapsed = time.monotonic() - self._start
            line = self._line(drawing(self._fraction, elapsed))
            self._stream.write(f"\r{line}  {elapsed:5.1f} s\x1b[K")
            self._stream.flush()


def drawing(fraction: float | None, elapsed: float) -> str:
    """Draw the inside of a bar; without a known fraction, a moving block."""
    if fraction is not None:
        filled = round(WIDTH * min(max(fraction, 0.0), 1.0))
        return "█" * filled + " " * (WIDTH - filled)
    span = WIDTH - 4
    at = int(elapsed * 20) % (2 * span)
    at = at if at <= span else 2 * span - at
    return " " * at + "████" + " " * (span - at)
