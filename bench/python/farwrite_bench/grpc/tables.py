"""Shows the rows as a table for each benchmark, and the plain latencies as a chart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from farwrite.units import format_size
from farwrite_bench.grpc.more_tables import Table, more_tables
from farwrite_bench.grpc.payload import PLAIN
from farwrite_bench.grpc.plan import BANDWIDTH, LATENCY, MIMIC, PS_THROUGHPUT
from farwrite_bench.grpc.targets import Row
from farwrite_bench.grpc.transport import TRANSPORTS
from farwrite_bench.report.chart import Series, beside, lines, standalone
from farwrite_bench.report.frame import Look
from farwrite_bench.report.numbers import duration, plain, short_size

CAPTIONS = {
    LATENCY: "Latency: one worker calls one server, which echoes the payload",
    BANDWIDTH: "Bandwidth: one worker calls one server, which acknowledges the payload",
    PS_THROUGHPUT: "Parameter servers: every worker calls every server, which echoes the payload",
    MIMIC: "Mimic: every node serves and calls all others, which echo the payload",
}
HEADERS = (
    "payload",
    "mode",
    "transport",
    "p50 us",
    "p99 us",
    "GB/s",
    "rpc/s",
    "x tcp",
    "copies",
    "CPU s/GB",
    "peak memory",
)


def tables(rows: Sequence[Row]) -> Iterator[Table]:
    """Make one table for each benchmark that has rows."""
    for benchmark, caption in CAPTIONS.items():
        mine = [row for row in rows if row["benchmark"] == benchmark]
        if mine:
            yield caption, HEADERS, [_cells(row) for row in mine]
    yield from more_tables(rows)


def picture(rows: Sequence[Row]) -> str | None:
    """Place the charts by plain size in one SVG file; None without any."""
    drawn = size_charts(rows)
    return standalone(beside("gRPC by size of the payload", drawn)) if drawn else None


def size_charts(rows: Sequence[Row]) -> list[str]:
    """Draw latency and bandwidth by plain size, a line for each transport."""
    drawn = []
    for benchmark, figure, unit in ((LATENCY, "p50_us", "median"), (BANDWIDTH, "gb_s", "GB/s")):
        for mode in dict.fromkeys(row["mode"] for row in rows):
            mine = [
                row
                for row in rows
                if (row["benchmark"], row["mode"], row["scheme"]) == (benchmark, mode, PLAIN)
                and row[figure] is not None
            ]
            if len({row["size"] for row in mine}) > 1:
                look = Look(
                    f"gRPC {benchmark}, {mode}",
                    "bytes",
                    unit,
                    log_x=True,
                    log_y=True,
                    write_x=short_size,
                    write_y=duration if benchmark == LATENCY else plain,
                    ticks_x=sorted({row["size"] for row in mine}),
                )
                drawn.append(lines(look, [_series(key, figure, mine) for key in _keys(mine)]))
    return drawn


def _keys(rows: Sequence[Row]) -> list[str]:
    present = {row["transport"] for row in rows}
    return [key for key in TRANSPORTS if key in present]


def _series(key: str, figure: str, rows: Sequence[Row]) -> Series:
    points = sorted((row["size"], row[figure]) for row in rows if row["transport"] == key)
    return Series(key, key, points=points)


def _cells(row: Row) -> list[str]:
    size = row["size"]
    name = format_size(size) if row["scheme"] == PLAIN else f"{row['scheme']}, {size} B"
    if row["skipped"] is not None:
        return [name, row["mode"], row["transport"], "skipped", *["-"] * 7]
    return [
        name,
        row["mode"],
        row["transport"],
        f"{row['p50_us']:.4g}",
        f"{row['p99_us']:.4g}",
        f"{row['gb_s']:.3g}",
        f"{row['rpc_s']:.4g}",
        "-" if row["ratio_to_tcp"] is None else f"{row['ratio_to_tcp']:.2f}",
        "-" if row["copies"] is None else f"{row['copies']:.3g}",
        f"{row['cpu_s_per_gb']:.3g}",
        ", ".join(format_size(held) for held in row["peak_bytes"].values()),
    ]
