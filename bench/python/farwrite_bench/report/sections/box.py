"""The parameter box, beside raw limits and MPI."""

from __future__ import annotations

from farwrite_bench.box.networks import NETWORKS
from farwrite_bench.box.plan import (
    ACCUMULATE,
    BANDWIDTH,
    BOX_SHM,
    BOXES,
    EMULATION,
    LATENCY,
    PUBLISH,
)
from farwrite_bench.box.tables import emulation_charts
from farwrite_bench.box.tables import tables as tables_of_tests
from farwrite_bench.report.bars import Bar, Group, bars
from farwrite_bench.report.parts import Card, Facts, Gain, Row, Table, figure, rows_of
from farwrite_bench.table import times

TITLE = "The parameter box: emulated asynchronous training, beside MPI"
LEAD = (
    "Workers read shared weights, sleep for the time of the computation, and push their changes"
    " meanwhile. Exposed communication is what a step takes longer than its computation."
)
RATES = {ACCUMULATE: "accumulate", BANDWIDTH: "whole segments"}


def figures(facts: Facts) -> list[str]:
    """Draw the emulation, its gains, and the rates of the other tests."""
    rows = rows_of(facts)
    drawn = emulation_charts(rows)
    won: dict[str, list[Bar]] = {}
    for row in _compared(rows):
        won.setdefault(_network(row), []).append(_won(row))
    if won:
        title = "Exposed communication: how many times less than MPI"
        groups = [Group(*group) for group in won.items()]
        drawn.append(bars(title, groups, "Dashed: as fast as the box. Longer is better.", 1.0))
    for test, what in RATES.items():
        groups = [Group(_case(row), _rates(row)) for row in rows if row["test"] == test]
        if groups:
            drawn.append(bars(f"Box: {what}, beside a raw loop", groups))
    published = [row for row in rows if row["test"] == PUBLISH]
    if published:
        group = Group(
            "until all readers have it",
            [
                Bar(
                    row["transport"] if row["transport"] in BOXES else "limit",
                    row["transport"] if row["transport"] in BOXES else "other ways",
                    row["visible_ms"],
                    f"{figure(row['visible_ms'])} ms, {row['transport']}",
                )
                for row in published
            ],
        )
        drawn.append(bars("Box: a model published to 8 readers", [group]))
    read = [row for row in rows if row["test"] == LATENCY]
    if read:
        found = [
            Bar(row["transport"], row["transport"], row["p50_us"], f"{figure(row['p50_us'])} µs")
            for row in read
        ]
        drawn.append(bars("Box: one read of 1 KiB", [Group("median", found)]))
    return drawn


def _compared(rows: list[Row]) -> list[Row]:
    return [
        row
        for row in rows
        if row["test"] == EMULATION and row["transport"] in BOXES and row["ratio"] is not None
    ]


def _network(row: Row) -> str:
    return f"{NETWORKS[row['model']].name}, {row['workers']} workers"


def _won(row: Row) -> Bar:
    bound = "at least " if row["ratio_is_bound"] else ""
    return Bar(row["transport"], row["transport"], row["ratio"], f"{bound}{times(row['ratio'])}")


def _case(row: Row) -> str:
    if row["test"] == ACCUMULATE:
        return f"{row['transport']}, {row['dtype']}"
    return f"{row['transport']}, {row['workers']} processes"


def _rates(row: Row) -> list[Bar]:
    found = [(row["transport"], row["transport"], row["gb_s"])]
    if row["limit_gb_s"] is not None:
        found.append(("limit", "raw loop", row["limit_gb_s"]))
    return [Bar(key, name, rate, f"{figure(rate)} GB/s") for key, name, rate in found]


def tables(facts: Facts) -> list[Table]:
    """Show all rows."""
    return list(tables_of_tests(facts["rows"]))


def cards(facts: Facts) -> list[Card]:
    """Choose the largest gain beside MPI over shared memory."""
    mine = [row for row in _compared(rows_of(facts)) if row["transport"] == BOX_SHM]
    if not mine:
        return []
    best = max(mine, key=lambda row: float(row["ratio"]))
    return [(times(best["ratio"]), f"less exposed communication than MPI, {_network(best)}")]


def gains(facts: Facts) -> list[Gain]:
    """Compare the exposed communication of every emulation with MPI's."""
    return [
        Gain(f"box: {_network(row)}, {row['transport']}", row["ratio"], "MPI")
        for row in _compared(rows_of(facts))
    ]
