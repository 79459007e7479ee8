"""Bytes between two processes, beside a raw loop."""

from __future__ import annotations

from farwrite.units import format_size
from farwrite_bench import table, two_hosts_command
from farwrite_bench.report.axis import duration, short_size
from farwrite_bench.report.bars import Bar, Group, bars
from farwrite_bench.report.chart import Series, lines
from farwrite_bench.report.frame import Look
from farwrite_bench.report.parts import Card, Facts, Gain, Row, Table, figure

TITLE = "Bytes between two processes"
LEAD = (
    "Farwrite's own operations beside the limit: a raw loop that moves the same bytes and does"
    " nothing else."
)
OPS = ("write", "read")
WAKING = ("notify", "alias")


def figures(facts: Facts) -> list[str]:
    """Draw rates and latencies by size, beside the limit."""
    rows = facts["rows"]
    if "channel" in facts:
        return _between_hosts(facts)
    key = f"farwrite-{rows[0]['fabric']}" if rows else ""
    drawn = []
    for op in OPS:
        mine = [row for row in rows if row["op"] == op]
        if len({row["size"] for row in mine}) > 1:
            drawn.append(_rate(op, key, mine))
            drawn.append(_latency(op, key, mine))
    groups = [
        Group(
            row["op"] if row["op"] == "notify" else f"{row['op']}, {format_size(row['size'])}",
            [
                Bar(key, "Farwrite", row["p50_us"], f"{figure(row['p50_us'])} µs"),
                Bar("limit", "limit", row["limit_p50_us"], f"{figure(row['limit_p50_us'])} µs"),
            ],
        )
        for row in rows
        if row["op"] in WAKING or len({r["size"] for r in rows if r["op"] == row["op"]}) == 1
    ]
    if groups:
        drawn.append(bars("Latency, one way, median", groups))
    return drawn


def _between_hosts(facts: Facts) -> list[str]:
    key = f"farwrite-{facts['channel']['fabric']}"
    groups = [
        Group(
            f"{row['op']}, {format_size(row['size'])}",
            [
                Bar(
                    key,
                    "Farwrite",
                    row["gb_s"],
                    f"{figure(row['gb_s'])} GB/s",
                    tuple(row["gb_s_spread"]),
                )
            ],
        )
        for row in facts["rows"]
    ]
    return [bars("Rate between two hosts", groups)] if groups else []


def _rate(op: str, key: str, rows: list[Row]) -> str:
    look = Look(
        f"{op}: rate, the receiver reads all bytes",
        "bytes of a transfer",
        "GB/s",
        log_x=True,
        write_x=short_size,
        ticks_x=[row["size"] for row in rows],
    )
    return lines(
        look,
        [
            Series(
                key,
                "Farwrite",
                [(row["size"], row["gb_s_read"]) for row in rows],
                ranges=[(row["size"], *row["gb_s_read_spread"]) for row in rows],
            ),
            Series("limit", "limit", [(row["size"], row["limit_gb_s_read"]) for row in rows]),
        ],
    )


def _latency(op: str, key: str, rows: list[Row]) -> str:
    look = Look(
        f"{op}: latency, one way, median",
        "bytes of a transfer",
        "time",
        log_x=True,
        log_y=True,
        write_x=short_size,
        write_y=duration,
        ticks_x=[row["size"] for row in rows],
    )
    return lines(
        look,
        [
            Series(key, "Farwrite", [(row["size"], row["p50_us"]) for row in rows]),
            Series("limit", "limit", [(row["size"], row["limit_p50_us"]) for row in rows]),
        ],
    )


def tables(facts: Facts) -> list[Table]:
    """Show all rows."""
    rows = facts["rows"]
    if "channel" in facts:
        cells = [two_hosts_command.cells(row) for row in rows]
        return [("Two hosts", two_hosts_command.HEADERS, cells)]
    return [("Two processes", table.HEADERS, [table.cells(row) for row in rows])]


def cards(facts: Facts) -> list[Card]:
    """Choose the share of the limit that the largest write reaches."""
    if "channel" in facts:
        return []
    writes = [
        row for row in facts["rows"] if row["op"] == "write" and row["ratio_of"] == "gb_s_read"
    ]
    if not writes:
        return []
    largest = max(writes, key=lambda row: int(row["size"]))
    what = f"of a raw loop's rate, writes of {format_size(largest['size'])} over"
    return [(f"{largest['ratio']:.0%}", f"{what} {largest['fabric']}")]


def gains(facts: Facts) -> list[Gain]:
    """Compare with nothing: nothing can be better than the limit."""
    return []
