"""A worker's vector, added to a variable of a parameter server."""

from __future__ import annotations

from farwrite_bench.assign.command import HEADERS, cells
from farwrite_bench.assign.plan import in_megabytes
from farwrite_bench.report.bars import Bar, Group, bars
from farwrite_bench.report.parts import Card, Facts, Gain, Table, figure, largest, rows_of

TITLE = "A vector added to a remote variable"
LEAD = "The step of TensorFlow's issues 4498 and 6116: assign_add to a parameter server's variable."


def figures(facts: Facts) -> list[str]:
    """Draw the rate of each way, by size."""
    groups: dict[str, list[Bar]] = {}
    for row in rows_of(facts):
        rounds = row["gb_s_rounds"]
        groups.setdefault(in_megabytes(row["size"]), []).append(
            Bar(
                row["way"],
                row["way"],
                row["gb_s"],
                f"{figure(row['gb_s'])} GB/s",
                (min(rounds), max(rounds)),
            )
        )
    found = [Group(*group) for group in groups.items()]
    return [bars("Rate of assign_add", found)] if found else []


def tables(facts: Facts) -> list[Table]:
    """Show all rows."""
    return [("A vector added to a variable", HEADERS, [cells(row) for row in facts["rows"]])]


def cards(facts: Facts) -> list[Card]:
    """Choose the largest gain beside stock gRPC."""
    return largest(gains(facts), "rate of stock gRPC")


def gains(facts: Facts) -> list[Gain]:
    """Compare Farwrite with stock gRPC, by size."""
    return [
        Gain(
            f"assign_add of {in_megabytes(row['size'])}", row["times_grpc"]["median"], "stock gRPC"
        )
        for row in rows_of(facts)
        if row["way"] == "farwrite"
    ]
