"""The progress of a run, by the expected time of its turns."""

from __future__ import annotations

from farwrite_bench.harness import benchmark


class Progress:
    """Draws the bar as turns begin."""

    def __init__(self, bar: benchmark.Progress, seconds: float) -> None:
        self._bar = bar
        self._total = seconds
        self._done = 0.0

    def __call__(self, what: str, seconds: float) -> None:
        """Draw the bar for a turn that begins and is expected to take `seconds`."""
        self._bar(min(self._done / self._total, 1.0), what)
        self._done += seconds
