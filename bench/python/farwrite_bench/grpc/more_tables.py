"""The tables of the benchmarks that compare Farwrite with TCP: receiver, connect and qps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from farwrite.units import format_size
from farwrite_bench.grpc.connect import IDLE
from farwrite_bench.grpc.plan import CONNECT, QPS, RECEIVER
from farwrite_bench.grpc.targets import Row, shown

Table = tuple[str, Sequence[str], Sequence[Sequence[str]]]
"""A title, the headers and the cells."""
ROLES = ("server", "worker")
RECEIVED = ("payload", "server", "transport", "CPU s/GB", "of tcp's", "GB/s", "target")
TIMED = ("connection", "transport", "p50 us", "p99 us", "of tcp's", "spread", "target")
HELD = (
    "idle connections",
    "transport",
    *(f"{role} B" for role in ROLES),
    *(f"{role} above tcp" for role in ROLES),
    "target",
)
DRIVEN = (
    *("calls", "channels", "mode", "payload", "transport", "rpc/s", "p50 us", "p99 us"),
    *("x tcp", "spread", "target"),
)


def more_tables(rows: Sequence[Row]) -> Iterator[Table]:
    """Make the tables of these benchmarks, if they have rows."""
    receivers = [row for row in rows if row["benchmark"] == RECEIVER]
    connects = [row for row in rows if row["benchmark"] == CONNECT]
    scenarios = [row for row in rows if row["benchmark"] == QPS]
    timed = [row for row in connects if row["connection"] != IDLE]
    idle = [row for row in connects if row["connection"] == IDLE]
    for title, headers, cells, mine in (
        ("Receiver: processor time of the server alone", RECEIVED, _received, receivers),
        ("Connect: from making a channel to the reply of its first call", TIMED, _timed, timed),
        ("Connect: memory of an idle connection, by side", HELD, _held, idle),
        ("qps: gRPC's own driver and workers", DRIVEN, _driven, scenarios),
    ):
        if mine:
            yield title, headers, [cells(row) for row in mine]


def _received(row: Row) -> list[str]:
    return [
        format_size(row["size"]),
        "reads" if row["reads"] else "does not read",
        row["transport"],
        f"{row['server_cpu_s_per_gb']:.3g}",
        _number(row.get("server_cpu_of_tcp")),
        f"{row['gb_s']:.3g}",
        shown(row),
    ]


def _timed(row: Row) -> list[str]:
    return [
        row["connection"],
        row["transport"],
        f"{row['p50_us']:.4g}",
        f"{row['p99_us']:.4g}",
        _number(row.get("of_tcp")),
        _spread(row.get("of_tcp_spread")),
        shown(row),
    ]


def _held(row: Row) -> list[str]:
    above = row.get("bytes_above_tcp")
    return [
        str(row["connections"]),
        row["transport"],
        *(f"{row['bytes_of_connection'][role]:.0f}" for role in ROLES),
        *("-" if above is None else f"{above[role]:.0f}" for role in ROLES),
        shown(row),
    ]


def _driven(row: Row) -> list[str]:
    if row["skipped"] is not None:
        return ["-", "-", "-", "-", row["transport"], "skipped", *["-"] * 5]
    return [
        row["rpc_type"],
        f"{row['channels']} x {row['outstanding']}",
        row["mode"],
        format_size(row["size"]),
        row["transport"],
        f"{row['rpc_s']:.4g}",
        f"{row['p50_us']:.4g}",
        f"{row['p99_us']:.4g}",
        _number(row["ratio_to_tcp"]),
        _spread(row.get("ratio_spread")),
        shown(row),
    ]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _spread(ends: Sequence[float] | None) -> str:
    return "-" if ends is None else f"{ends[0]:.2f}-{ends[1]:.2f}"
