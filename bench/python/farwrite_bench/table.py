"""Output for people: tables as text and as Markdown, and a progress bar."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TextIO


def times(value: float) -> str:
    """Format a ratio as "0.97x", "3.2x" or "61x"."""
    return f"{value:.2f}x" if value < 2 else f"{value:.1f}x" if value < 20 else f"{value:.0f}x"


def text_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Align the first column to the left and the others to the right."""
    widths = [max(len(line[i]) for line in (headers, *rows)) for i in range(len(headers))]
    for line in (headers, ["-" * width for width in widths], *rows):
        first, *others = (
            text.ljust(width) if i == 0 else text.rjust(width)
            for i, (text, width) in enumerate(zip(line, widths, strict=True))
        )
        yield "  ".join([first, *others]).rstrip()


def markdown_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Format the same table as Markdown."""
    yield "| " + " | ".join(headers) + " |"
    yield "|---" + "|---:" * (len(headers) - 1) + "|"
    for row in rows:
        yield "| " + " | ".join(row) + " |"


class ProgressBar:
    """A bar on the last line of a terminal; prints nothing if the stream is no terminal."""

    WIDTH = 24

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._shown = self._stream.isatty()

    def __call__(self, share: float, what: str = "") -> None:
        """Draw the bar at `share`, from 0 to 1, with the name of the next step."""
        if not self._shown:
            return
        full = int(share * self.WIDTH)
        bar = "#" * full + "." * (self.WIDTH - full)
        self._stream.write(f"\r\x1b[K[{bar}] {share:4.0%} {what}")
        self._stream.flush()

    def clear(self) -> None:
        """Erase the bar, so that other output can follow."""
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
