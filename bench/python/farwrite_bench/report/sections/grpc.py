"""gRPC programs over several transports."""

from __future__ import annotations

from farwrite.units import format_size
from farwrite_bench.grpc.payload import PLAIN
from farwrite_bench.grpc.plan import (
    BANDWIDTH,
    CONNECT,
    LATENCY,
    MIMIC,
    PS_THROUGHPUT,
    QPS,
    RECEIVER,
)
from farwrite_bench.grpc.tables import size_charts
from farwrite_bench.grpc.tables import tables as tables_of_benchmarks
from farwrite_bench.grpc.transport import TCP
from farwrite_bench.report.bars import Bar, Group, bars
from farwrite_bench.report.parts import Card, Facts, Gain, Row, Table, figure, rows_of
from farwrite_bench.table import times

TITLE = "gRPC programs: latency and throughput"
LEAD = (
    "The same compiled gRPC program over TCP, unix sockets, MPI, and Farwrite. Payloads have ten"
    " buffers (uniform, random, skew) or one of a plain size."
)
BESIDE_TCP = {
    LATENCY: "Latency: how many times less than over TCP",
    BANDWIDTH: "Bandwidth: how many times that of TCP",
    PS_THROUGHPUT: "Parameter servers: calls a second, times TCP's",
    MIMIC: "Nodes that all call each other: calls a second, times TCP's",
}
NOTE = "Dashed: as fast as TCP. Longer is better."


def figures(facts: Facts) -> list[str]:
    """Draw latency and bandwidth by size, then each benchmark beside TCP."""
    rows = [row for row in rows_of(facts) if row["transport"] is not None]
    drawn = size_charts(rows)
    for benchmark, title in BESIDE_TCP.items():
        groups: dict[str, list[Bar]] = {}
        for row in rows:
            if row["benchmark"] != benchmark or row["transport"] == TCP:
                continue
            if row["ratio_to_tcp"] is not None:
                groups.setdefault(_payload(row), []).append(_beside_tcp(row))
        if groups:
            found = [Group(*group) for group in groups.items()]
            drawn.append(bars(title, found, NOTE, 1.0))
    return [*drawn, *_receiver(rows), *_connect(rows), *_qps(rows)]


def _payload(row: Row) -> str:
    name = format_size(row["size"]) if row["scheme"] == PLAIN else row["scheme"]
    return f"{name}, {row['mode']}"


def _beside_tcp(row: Row) -> Bar:
    return Bar(row["transport"], row["transport"], row["ratio_to_tcp"], times(row["ratio_to_tcp"]))


def _receiver(rows: list[Row]) -> list[str]:
    groups: dict[str, list[Bar]] = {}
    for row in rows:
        if row["benchmark"] == RECEIVER:
            name = "it reads the payload" if row["reads"] else "it does not read the payload"
            value = row["server_cpu_s_per_gb"]
            text = f"{figure(value)} s/GB"
            groups.setdefault(name, []).append(Bar(row["transport"], row["transport"], value, text))
    found = [Group(*group) for group in groups.items()]
    return [bars("Processor time of the receiving server", found)] if found else []


def _connect(rows: list[Row]) -> list[str]:
    groups: dict[str, list[Bar]] = {}
    for row in rows:
        if row["benchmark"] == CONNECT and row["p50_us"] is not None:
            name = f"{row['connection']} connection"
            text = f"{figure(row['p50_us'])} µs"
            groups.setdefault(name, []).append(
                Bar(row["transport"], row["transport"], row["p50_us"], text)
            )
    found = [Group(*group) for group in groups.items()]
    return [bars("A connection and its first call, median", found)] if found else []


def _qps(rows: list[Row]) -> list[str]:
    groups: dict[str, list[Bar]] = {}
    for row in rows:
        if row["benchmark"] == QPS:
            groups.setdefault(_scenario(row), []).append(
                Bar(row["transport"], row["transport"], row["rpc_s"], figure(row["rpc_s"]))
            )
    found = [Group(*group) for group in groups.items()]
    return [bars("gRPC's own benchmark: calls a second", found)] if found else []


def _scenario(row: Row) -> str:
    return f"{row['rpc_type']}, {row['mode']}, {row['channels']} x {row['outstanding']}"


def tables(facts: Facts) -> list[Table]:
    """Show all rows."""
    return list(tables_of_benchmarks(facts["rows"]))


def compared(facts: Facts) -> list[Row]:
    """Return the rows of Farwrite that are compared with TCP."""
    return [
        row
        for row in rows_of(facts)
        if row["transport"].startswith("farwrite-") and row["ratio_to_tcp"] is not None
    ]


def cards(facts: Facts) -> list[Card]:
    """Choose the largest gain of latency and of throughput."""
    found = []
    for benchmark, what in (
        (LATENCY, "less latency of a gRPC call than over TCP"),
        (PS_THROUGHPUT, "gRPC calls a second to parameter servers, beside TCP"),
    ):
        mine = [row for row in compared(facts) if row["benchmark"] == benchmark]
        if mine:
            best = max(mine, key=lambda row: float(row["ratio_to_tcp"]))
            found.append((times(best["ratio_to_tcp"]), f"{what}, {_payload(best)}"))
    return found


def gains(facts: Facts) -> list[Gain]:
    """Compare every row of Farwrite with TCP."""
    found = []
    for row in compared(facts):
        if row["benchmark"] == QPS:
            case = _scenario(row)
        elif row["benchmark"] == CONNECT:
            case = f"{row['connection']} connection"
        else:
            case = _payload(row)
        found.append(
            Gain(
                f"gRPC {row['benchmark']}: {case}, {row['transport']}",
                row["ratio_to_tcp"],
                "gRPC over TCP",
            )
        )
    return found
