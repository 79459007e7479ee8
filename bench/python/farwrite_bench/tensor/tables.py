"""Shows the rows as a table and as a chart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from farwrite.units import format_size
from farwrite_bench.cluster.transport import FARWRITE
from farwrite_bench.report.axis import duration, short_size
from farwrite_bench.report.chart import Series, beside, lines, standalone
from farwrite_bench.report.frame import Look
from farwrite_bench.tensor.plan import (
    CONSUMERS,
    LOCAL,
    RAW,
    RAW_TARGET,
    RAW_TARGET_FROM,
    TRANSPORTS,
)
from farwrite_bench.tensor.rows import Row

_LIMITS = (LOCAL.key, RAW.key)
HEADERS = (
    "consumer",
    "size",
    "transport",
    "fabric",
    "step ms",
    "empty ms",
    "added us",
    "95 % interval",
    "of grpc",
    "of local",
    "same control",
    "of raw",
    "copies",
    "cpu ms",
    "control",
    "socket bytes",
)


def cells(rows: Sequence[Row]) -> Iterator[tuple[str, ...]]:
    """Format the rows as the cells below `HEADERS`; a failed row shows no figures."""
    stock = {(r["consumer"], r["size"]): r["added_us"] for r in rows if r["transport"] == "grpc"}
    for row in rows:
        named = (row["consumer"], format_size(row["size"]), row["transport"], row["fabric"])
        if row["error"] is not None:
            yield (*named, "failed", *["-"] * (len(HEADERS) - len(named) - 1))
            continue
        low, high = row["added_us_ci"]
        grpc = stock.get((row["consumer"], row["size"]))
        yield (
            *named,
            f"{row['step_ms']:.3f}",
            f"{row['empty_step_ms']:.3f}",
            f"{row['added_us']:.0f}",
            f"{low:.0f} to {high:.0f}",
            f"{row['added_us'] / grpc:.3f}" if grpc and row["transport"] not in _LIMITS else "-",
            f"{row['vs_local']:.2f}" if row["vs_local"] else "-",
            f"{row['vs_local_same_control']:.2f}" if row["vs_local"] else "-",
            f"{row['of_raw']:.2f}" if row["of_raw"] is not None else "-",
            "-" if row["copies"] is None else f"{row['copies']:g}",
            f"{row['cpu_ms']:.2f}",
            control(row["control"]),
            f"{row['socket_bytes']:.0f}",
        )


def control(calls: Mapping[str, float] | None) -> str:
    """Format the control calls of a step: by Farwrite + by gRPC."""
    return "-" if calls is None else f"{calls['farwrite']:.3g} + {calls['grpc']:.3g}"


def failures(rows: Sequence[Row]) -> Iterator[str]:
    """Give the reason for each row without figures."""
    for row in rows:
        if row["error"] is not None:
            what = f"{row['transport']}, {row['consumer']}, {format_size(row['size'])}"
            yield f"{what}: {row['error'].splitlines()[0][:300]}"


def against_raw(rows: Sequence[Row]) -> Iterator[str]:
    """Compare Farwrite with the raw socket, where both were measured."""
    for row in rows:
        share = row.get("of_raw")
        if share is None or row["transport"] != FARWRITE.key or row["size"] < RAW_TARGET_FROM:
            continue
        met = "" if share >= RAW_TARGET else ", missed"
        yield (
            f"{row['consumer']} {format_size(row['size'])}: {share:.2f} of the raw socket"
            f" (target {RAW_TARGET}{met})"
        )


def picture(rows: Sequence[Row]) -> str:
    """Place the charts of the added time in one SVG file."""
    return standalone(beside("Time that a tensor adds to a step", added_charts(rows)))


def added_charts(rows: Sequence[Row]) -> list[str]:
    """Draw the added time by size, with one chart for each consumer."""
    known = [row for row in rows if row["error"] is None]
    drawn = []
    for consumer in CONSUMERS:
        of_it = [row for row in known if row["consumer"] == consumer]
        if not of_it:
            continue
        sizes = sorted({row["size"] for row in of_it})
        look = Look(
            f"Time that a tensor adds to a step: {consumer}",
            "bytes of the tensor",
            "added time",
            log_x=True,
            log_y=True,
            write_x=short_size,
            write_y=duration,
            ticks_x=sizes,
        )
        drawn.append(lines(look, [_series(key, of_it) for key in _keys(of_it)]))
    return drawn


def _keys(rows: Sequence[Row]) -> list[str]:
    present = {row["transport"] for row in rows}
    return [key for key in TRANSPORTS if key in present]


def _series(key: str, rows: Sequence[Row]) -> Series:
    mine = [row for row in rows if row["transport"] == key]
    # A difference can be below zero; a logarithmic axis shows it at 1 us.
    return Series(
        key,
        key,
        points=[(row["size"], max(row["added_us"], 1.0)) for row in mine],
        ranges=[
            (row["size"], max(row["added_us_ci"][0], 1.0), max(row["added_us_ci"][1], 1.0))
            for row in mine
        ],
    )
