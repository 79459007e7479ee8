"""Farwrite beside other libraries, between two processes of one host."""

from __future__ import annotations

from farwrite.units import format_size
from farwrite_bench.peers.charts import charts
from farwrite_bench.peers.tables import HEADERS, cells, ordered
from farwrite_bench.report.parts import Card, Facts, Gain, Row, Table, largest

TITLE = "Beside other libraries"
LEAD = (
    "The same payloads from one process to another, by Farwrite and by other libraries in turn. The"
    " receiver reads every byte. The limit is a memcpy into shared memory."
)


def figures(facts: Facts) -> list[str]:
    """Draw time and rate by size."""
    return charts(facts["rows"])


def tables(facts: Facts) -> list[Table]:
    """Show all rows, also of the peers that are missing."""
    return [("Two processes", HEADERS, [cells(row) for row in ordered(facts["rows"])])]


def cards(facts: Facts) -> list[Card]:
    """Choose the largest gain in Farwrite's own range, which is large transfers."""
    return largest(
        [_gain(row) for row in _compared(facts) if row["ratio_of"] == "gb_s"],
        "the rate of another library",
    )


def gains(facts: Facts) -> list[Gain]:
    """Compare every row with Farwrite, from the same language."""
    return [_gain(row) for row in _compared(facts)]


def _compared(facts: Facts) -> list[Row]:
    return [row for row in facts["rows"] if row["of_farwrite"] is not None]


def _gain(row: Row) -> Gain:
    what = "rate" if row["ratio_of"] == "gb_s" else "time"
    case = f"{what} of {format_size(row['size'])} between two processes, beside {row['name']}"
    than = f"{row['name']}, from {row['language']}"
    return Gain(case, row["of_farwrite"]["median"], than, row["why"] or "")
