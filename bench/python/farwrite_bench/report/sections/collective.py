"""An all-reduce between two workers."""

from __future__ import annotations

from farwrite.units import format_size
from farwrite_bench.collective.command import HEADERS, cells
from farwrite_bench.report.bars import Bar, Group, bars
from farwrite_bench.report.parts import Card, Facts, Gain, Table, figure, rows_of
from farwrite_bench.table import times

TITLE = "An all-reduce between two workers"
LEAD = "MultiWorkerMirroredStrategy's all-reduce of one variable, by TensorFlow's ring."


def figures(facts: Facts) -> list[str]:
    """Draw the rate of each transport."""
    found = [
        Bar(row["transport"], row["transport"], row["gb_s"], f"{figure(row['gb_s'])} GB/s")
        for row in rows_of(facts)
    ]
    return [bars("Rate of an all-reduce", [Group(_size(facts), found)])] if found else []


def _size(facts: Facts) -> str:
    return format_size(facts["settings"]["bytes"])


def tables(facts: Facts) -> list[Table]:
    """Show all rows."""
    title = f"All-reduce of {_size(facts)}"
    return [(title, HEADERS, [cells(row) for row in facts["rows"]])]


def cards(facts: Facts) -> list[Card]:
    """Show the gain beside stock gRPC."""
    return [(times(gain.times), f"faster than stock gRPC, {gain.case}") for gain in gains(facts)]


def gains(facts: Facts) -> list[Gain]:
    """Compare Farwrite with stock gRPC."""
    return [
        Gain(f"all-reduce of {_size(facts)}", 1 / row["of_grpc"], "stock gRPC")
        for row in rows_of(facts)
        if row["transport"] != "grpc"
    ]
