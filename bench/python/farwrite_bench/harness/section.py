"""The part of the page that follows from a benchmark's declaration."""

from __future__ import annotations

from typing import Any

from farwrite_bench.harness.benchmark import Benchmark
from farwrite_bench.harness.column import cells, heads
from farwrite_bench.report.parts import Card, Facts, Gain, Table, largest, rows_of


class DeclaredSection:
    """A `Section` of a benchmark."""

    def __init__(self, benchmark: Benchmark[Any]) -> None:
        self._benchmark = benchmark
        self.TITLE = benchmark.title
        self.LEAD = benchmark.description

    def figures(self, facts: Facts) -> list[str]:
        """Draw the charts."""
        rows = rows_of(facts)
        return [drawn for chart in self._benchmark.charts for drawn in chart.draw(rows)]

    def tables(self, facts: Facts) -> list[Table]:
        """Show all rows."""
        columns = self._benchmark.columns
        shown = [cells(columns, row) for row in facts["rows"]]
        return [(self._benchmark.title, heads(columns), shown)]

    def cards(self, facts: Facts) -> list[Card]:
        """Choose the largest gain."""
        what = self._benchmark.gain_of
        return largest(self.gains(facts), what) if what else []

    def gains(self, facts: Facts) -> list[Gain]:
        """Compare Farwrite with something else."""
        return self._benchmark.gains(facts)
