"""The part of the page that follows from a benchmark's declaration."""

from __future__ import annotations

from typing import Any

from farwrite_bench.harness.benchmark import Benchmark
from farwrite_bench.report.parts import Card, Facts, Gain, Table, largest


class Section:
    """What the page shows of a benchmark."""

    def __init__(self, benchmark: Benchmark[Any]) -> None:
        self._benchmark = benchmark
        self.TITLE = benchmark.title
        self.LEAD = benchmark.description

    def figures(self, facts: Facts) -> list[str]:
        """Draw the charts."""
        return [drawn for draw in self._benchmark.charts for drawn in draw(facts)]

    def tables(self, facts: Facts) -> list[Table]:
        """Show all rows."""
        return [
            (table.title or self.TITLE, table.heads(), cells)
            for table in self._benchmark.tables
            if (cells := table.cells(facts))
        ]

    def cards(self, facts: Facts) -> list[Card]:
        """Choose the key figures."""
        what = self._benchmark.gain_of
        most = largest(self.gains(facts), what) if what else []
        return [*most, *self._benchmark.cards(facts)]

    def gains(self, facts: Facts) -> list[Gain]:
        """Compare Farwrite with something else."""
        return self._benchmark.gains(facts)
