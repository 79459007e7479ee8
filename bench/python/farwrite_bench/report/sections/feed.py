"""Feeds and fetches of a client of a server in another process."""

from __future__ import annotations

from farwrite.units import format_size
from farwrite_bench.feed.command import HEADERS, cells
from farwrite_bench.feed.plan import OPERATIONS, WAYS
from farwrite_bench.report.axis import short_size
from farwrite_bench.report.bars import Bar, Group, bars
from farwrite_bench.report.chart import Series, lines
from farwrite_bench.report.frame import Look
from farwrite_bench.report.parts import Card, Facts, Gain, Row, Table, figure, largest, rows_of

TITLE = "Feeds and fetches of a client"
LEAD = "A client without a server feeds a NumPy array to a server, and fetches one."


def figures(facts: Facts) -> list[str]:
    """Draw the rate by size for feeds and for fetches."""
    drawn = []
    for operation in OPERATIONS:
        rows = [row for row in rows_of(facts) if row["operation"] == operation]
        if rows:
            drawn.append(_chart(operation, rows))
    return drawn


def _chart(operation: str, rows: list[Row]) -> str:
    sizes = sorted({row["size"] for row in rows})
    if len(sizes) == 1:
        found = [Bar(row["way"], row["way"], row["ms"], f"{figure(row['ms'])} ms") for row in rows]
        return bars(f"One {operation}", [Group(format_size(sizes[0]), found)])
    look = Look(
        f"Rate of a {operation}",
        "bytes of the tensor",
        "GB/s",
        log_x=True,
        log_y=True,
        write_x=short_size,
        ticks_x=sizes,
    )
    keys = [key for key in WAYS if any(row["way"] == key for row in rows)]
    return lines(
        look,
        [
            Series(
                key, key, sorted((row["size"], row["gb_s"]) for row in rows if row["way"] == key)
            )
            for key in keys
        ],
    )


def tables(facts: Facts) -> list[Table]:
    """Show all rows."""
    return [("Feeds and fetches", HEADERS, [cells(row) for row in facts["rows"]])]


def cards(facts: Facts) -> list[Card]:
    """Choose the largest gain beside stock gRPC."""
    return largest(gains(facts), "faster than stock gRPC")


def gains(facts: Facts) -> list[Gain]:
    """Compare every feed and fetch with stock gRPC."""
    return [
        Gain(
            f"{row['operation']} of {format_size(row['size'])}",
            1 / row["of_grpc"]["median"],
            "stock gRPC",
        )
        for row in rows_of(facts)
        if row["way"] != "grpc" and row["of_grpc"]
    ]
