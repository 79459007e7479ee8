"""Shows the rows as a table for each test, and the emulation as a chart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from farwrite.units import format_size
from farwrite_bench.box.networks import MEGABYTE, NETWORKS
from farwrite_bench.box.plan import (
    ACCUMULATE,
    BANDWIDTH,
    EMULATION,
    LATENCY,
    PUBLISH,
    TRANSPORTS,
)
from farwrite_bench.box.rows import Row
from farwrite_bench.report.chart import Series, beside, lines, standalone
from farwrite_bench.report.frame import Look

Table = tuple[str, Sequence[str], Sequence[Sequence[str]]]
"""A title, the headers and the cells."""

CAPTIONS = {
    LATENCY: "One read of 1 KiB at a time, polled, from C++",
    ACCUMULATE: "Accumulate at the server; the limit is a plain float32 loop with as many threads",
    PUBLISH: "A model published to 8 readers; the limit is one streaming copy",
    BANDWIDTH: "Whole segments, half of the processes read and half write; the limit is a raw loop"
    " of as many processes",
    EMULATION: "Asynchronous training, emulated: exposed communication of one step",
}

TARGET_HEADERS = ("test", "case", "measured", "target", "verdict")


def tables(rows: Sequence[Row]) -> Iterator[Table]:
    """Make one table for each test that has rows."""
    for test, make in _CELLS.items():
        mine = [row for row in rows if row["test"] == test]
        if mine:
            yield CAPTIONS[test], _HEADERS[test], [_or_skipped(row, make(row)) for row in mine]


def targets(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """Format the rows that have a target as the cells below `TARGET_HEADERS`."""
    return [
        (
            row["test"],
            _CELLS[row["test"]](row)[0],
            f"{row['p50_us']:.2f} us" if row["test"] == LATENCY else _ratio(row),
            row["target"],
            "met" if row["target_met"] else "MISSED",
        )
        for row in rows
        if row["target"] is not None
    ]


def picture(rows: Sequence[Row]) -> str | None:
    """Place the charts of the emulation in one SVG file; None without any."""
    drawn = emulation_charts(rows)
    return standalone(beside("Exposed communication of a step", drawn)) if drawn else None


def emulation_charts(rows: Sequence[Row]) -> list[str]:
    """Draw exposed time by the size of the parameters, a chart for each number of workers."""
    measured = [row for row in rows if row["test"] == EMULATION and row["comm_ms"] is not None]
    drawn = []
    for workers in sorted({row["workers"] for row in measured}):
        look = Look(
            f"Exposed communication of a step, {workers} workers",
            "MB of parameters",
            "ms",
            log_x=True,
            log_y=True,
            write_x=lambda megabytes: f"{megabytes:.3g}",
            ticks_x=sorted({_megabytes(row) for row in measured}),
        )
        of_it = [row for row in measured if row["workers"] == workers]
        drawn.append(lines(look, [_series(key, of_it) for key in _keys(of_it)]))
    return drawn


def _keys(rows: Sequence[Row]) -> list[str]:
    present = {row["transport"] for row in rows}
    return [key for key in TRANSPORTS if key in present]


def _series(key: str, rows: Sequence[Row]) -> Series:
    # A logarithmic axis has no zero; nothing below 0.1 ms differs from it.
    mine = [row for row in rows if row["transport"] == key]
    return Series(
        key,
        key,
        points=sorted((_megabytes(row), max(row["comm_ms"], 0.1)) for row in mine),
        ranges=[(_megabytes(row), *(max(end, 0.1) for end in row["spread_ms"])) for row in mine],
    )


def _megabytes(row: Row) -> float:
    return float(row["bytes"] / MEGABYTE)


def _target(row: Row) -> str:
    if row["target"] is None:
        return "-"
    return f"{row['target']} {'ok' if row['target_met'] else 'MISSED'}"


def _ratio(row: Row) -> str:
    if row["ratio"] is None:
        return "-"
    return f"{'>' if row.get('ratio_is_bound') else ''}{row['ratio']:.2f}"


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _latency(row: Row) -> list[str]:
    return [row["transport"], f"{row['p50_us']:.2f}", f"{row['p99_us']:.2f}", _target(row)]


def _accumulate(row: Row) -> list[str]:
    return [
        f"{row['transport']} {row['dtype']}",
        format_size(row["bytes"]),
        _rate(row["gb_s"]),
        _rate(row["limit_gb_s"]),
        _ratio(row),
        _target(row),
    ]


def _publish(row: Row) -> list[str]:
    return [
        row["transport"],
        format_size(row["bytes"]),
        f"{row['visible_ms']:.1f}",
        _rate(row["gb_s"]),
        _rate(row["limit_gb_s"]),
        _ratio(row),
        _target(row),
        f"{row['copies_publisher']} + {row['copies_reader']}",
    ]


def _bandwidth(row: Row) -> list[str]:
    return [
        f"{row['transport']} x {row['workers']}",
        format_size(row["bytes"]),
        _rate(row["gb_s"]),
        _rate(row["limit_gb_s"]),
        _ratio(row),
        _target(row),
    ]


def _emulation(row: Row) -> list[str]:
    name = f"{NETWORKS[row['model']].name} x {row['workers']}"
    if row["comm_ms"] is None:
        return [name, row["transport"], "", "", "", "", "", ""]
    low, high = row["spread_ms"]
    others = [f"{key} {took:.1f}" for key, took in row["variants"].items() if key != row["variant"]]
    return [
        name,
        row["variant"]
        if row["variant"].startswith(row["transport"])
        else f"{row['transport']} {row['variant']}",
        f"{row['comm_ms']:.1f}",
        f"{low:.1f} to {high:.1f}",
        f"{row['compute_ms']:g}",
        ", ".join(others) or "-",
        _ratio(row),
        _target(row),
    ]


def _or_skipped(row: Row, cells: list[str]) -> list[str]:
    if row["skipped"] is not None:
        cells[-1] = f"skipped: {row['skipped']}"
    return cells


_CELLS = {
    LATENCY: _latency,
    ACCUMULATE: _accumulate,
    PUBLISH: _publish,
    BANDWIDTH: _bandwidth,
    EMULATION: _emulation,
}
_HEADERS = {
    LATENCY: ("transport", "p50 us", "p99 us", "target"),
    ACCUMULATE: ("transport", "delta", "GB/s", "limit GB/s", "ratio", "target"),
    PUBLISH: (
        "transport",
        "model",
        "visible ms",
        "GB/s",
        "limit GB/s",
        "of a copy",
        "target",
        "copies",
    ),
    BANDWIDTH: ("transport", "segment", "GB/s", "limit GB/s", "ratio", "target"),
    EMULATION: (
        "network",
        "transport",
        "comm ms",
        "spread",
        "compute ms",
        "slower way",
        "x less than mpi",
        "target",
    ),
}
