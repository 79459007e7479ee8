"""A line on standard error for a block of code."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TextIO


class Progress:
    """Shows one task: on a terminal its state while it runs, and everywhere its result.

    Parameters
    ----------
    label : str
        Name of the task.
    stream : file, optional
        Stream to write to; standard error by default.
    """

    result = ""
    """The text at the end of the line when the task is done."""

    def __init__(self, label: str, stream: TextIO | None = None) -> None:
        self._label = label
        self._stream = sys.stderr if stream is None else stream

    def show(self, state: str) -> None:
        """Show how far the task is."""
        if self._stream.isatty():
            self._stream.write(f"\r  {self._label:<32} {state}\x1b[K")
            self._stream.flush()

    def __enter__(self) -> Progress:
        self.show("...")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.show(self.result)
        if self._stream.isatty():
            self._stream.write("\n")
        elif kind is None:
            self._stream.write(f"{self._label}: {self.result}\n")
        self._stream.flush()
