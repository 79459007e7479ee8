"""The benchmark ``grpc``: payloads of gRPC programs over several transports."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from farwrite.units import format_size
from farwrite_bench.grpc.arguments import OPTIONS, add_benchmarks
from farwrite_bench.grpc.connect import IDLE
from farwrite_bench.grpc.measure import Measurement
from farwrite_bench.grpc.payload import PLAIN
from farwrite_bench.grpc.plan import (
    BANDWIDTH,
    CONNECT,
    FRESH,
    LATENCY,
    MIMIC,
    PS_THROUGHPUT,
    QPS,
    RECEIVER,
    REUSED,
    GrpcPlan,
    expected_seconds,
)
from farwrite_bench.grpc.selection import make_plan
from farwrite_bench.grpc.tools import Tools, find_tools
from farwrite_bench.grpc.transport import MPI, TCP, TRANSPORTS
from farwrite_bench.harness.benchmark import Benchmark, Progress
from farwrite_bench.harness.chart import Bars, BySize
from farwrite_bench.harness.column import Column, Table, marked
from farwrite_bench.record import Record
from farwrite_bench.report.numbers import duration, plain
from farwrite_bench.report.parts import Card, Facts, Gain, Row, largest, rows_of
from farwrite_bench.table import times

NOTES = (
    "p50 and p99: from the call to the end of reading its reply; with several workers, the slowest"
    " worker's. GB/s counts payloads in both directions; 1 GB is 10^9 bytes. x tcp: of p50 in the"
    " latency benchmark, of rpc/s in the others, turns of one round compared. copies: how often"
    " Farwrite copied a byte that gRPC sent (staged, borrowed: once, in a message: twice, read from"
    " a mapped peer: once); '-' where nothing counts copies. The kernel's are not counted.",
    "Every receiver reads each cache line of a payload and checks marks in each 4 KiB. Servers and"
    " workers of gRPC block in epoll; MPI polls and yields its processor. Peak memory: the largest"
    " of a worker and of a server.",
    "mpi: OpenMPI by mpi4py with the same requests and replies, one message for each buffer, into"
    " receive buffers posted in advance. It has no serialized mode.",
    "receiver, connect, qps: 'of tcp's' and 'x tcp' are medians over the rounds, beside the"
    " smallest and the largest round. Connections begin on TCP, as programs run by default, and"
    " every one must have been upgraded at the end. Memory is the growth of anonymous and shared"
    " memory (proportional set size). In qps, a rate of 0.95 or more is within noise if"
    " one round reached TCP's.",
)
MALLOC = "M_MMAP_THRESHOLD 32 MiB, M_TRIM_THRESHOLD 1 GiB, M_TOP_PAD 64 MiB, in all programs"
PAYLOADS = {
    FRESH: "fresh payloads: each call allocates its buffers, as a program does that sends new"
    " tensors",
    REUSED: "one reused payload: all calls send the same buffers, as TF-gRPC-Bench does, so that"
    " rates have no cost of making payloads",
}


@dataclass
class Run:
    """A run with every choice made."""

    plan: GrpcPlan
    tools: Tools
    arguments: argparse.Namespace
    grpc: str = ""
    """The version of gRPC, from when a program has told it."""


def run_of(arguments: argparse.Namespace, record: Record) -> Run:
    """Make every choice, and find the programs."""
    plan = make_plan(arguments)
    tools = find_tools(plan)
    record.notes += tools.notes
    if arguments.quick:
        record.notes.append("a short run shows that the command works, not how fast anything is")
    return Run(plan, tools, arguments)


def measure(run: Run, progress: Progress, logs: Path) -> Facts:
    """Run every case, over one transport after the other."""
    measurement = Measurement(run.plan, run.tools, progress, logs)
    rows = measurement.rows()
    run.grpc = measurement.grpc
    return {"rows": rows}


def _of_rounds(run: Run) -> str:
    return "mean" if run.plan.pace.mean else "median"


def settings(run: Run) -> dict[str, Any]:
    """Return the choices, and how gRPC is set up for each transport."""
    plan, openmpi = run.plan, run.tools.openmpi
    return {
        "warm_up_seconds": plan.pace.warm_up,
        "seconds": plan.pace.seconds,
        "rounds": plan.pace.rounds,
        "of_rounds": _of_rounds(run),
        "payload": PAYLOADS[run.arguments.payload],
        "server_threads": run.arguments.server_threads,
        "seed": run.arguments.seed,
        "grpc": {
            transport.key: " ".join(
                [
                    f"gRPC {run.grpc}:",
                    *(f"{name}={value}" for name, value in plan.arguments_of(transport).items()),
                ]
            )
            for transport in plan.transports
            if transport.key != MPI
        },
        "malloc": MALLOC,
        "mpi": openmpi.settings() if openmpi else None,
    }


def sentences(facts: Facts) -> list[str]:
    """Say how gRPC and MPI were run."""
    chosen = facts["settings"]
    lines = {
        "payload": chosen["payload"],
        **chosen["grpc"],
        "malloc": chosen["malloc"],
        "mpi": chosen["mpi"],
    }
    return ["\n".join(f"{name}: {line}" for name, line in lines.items() if line is not None)]


def _payload(row: Row) -> str:
    size = row["size"]
    return format_size(size) if row["scheme"] == PLAIN else f"{row['scheme']}, {size} B"


def _first(key: str, form: str) -> Column:
    """Make the column of the first figure, which says whether a row was skipped."""
    head = {"p50_us": "p50 us", "rpc_s": "rpc/s"}[key]
    return Column(head, lambda row: "skipped" if row["skipped"] else format(row[key], form))


def _spread(key: str) -> Column:
    def ends(row: Row) -> str | None:
        found = row.get(key)
        return None if found is None else f"{found[0]:.2f}-{found[1]:.2f}"

    return Column("spread", ends)


def _peak(row: Row) -> str | None:
    held = row["peak_bytes"]
    return None if held is None else ", ".join(map(format_size, held.values()))


def _rows_of(benchmark: str, idle: bool | None = None) -> Callable[[Facts], list[Row]]:
    """Return what selects the rows of a benchmark; of connect, those of idle connections or not."""

    def rows(facts: Facts) -> list[Row]:
        return [
            row
            for row in facts["rows"]
            if row["benchmark"] == benchmark and idle in (None, row.get("connection") == IDLE)
        ]

    return rows


def _role(role: str, key: str, head: str) -> Column:
    return Column(f"{role} {head}", lambda row: row.get(key) and row[key][role], ".0f")


MODE, TRANSPORT = Column("mode", "mode"), Column("transport", "transport")
P99, RATE = Column("p99 us", "p99_us", ".4g"), Column("GB/s", "gb_s", ".3g")
BESIDE_TCP = Column("x tcp", "ratio_to_tcp", ".2f")
TARGET = Column("target", lambda row: marked(row.get("target"), row.get("target_met")))
EACH = (
    Column("payload", _payload),
    MODE,
    TRANSPORT,
    _first("p50_us", ".4g"),
    P99,
    RATE,
    Column("rpc/s", "rpc_s", ".4g"),
    BESIDE_TCP,
    Column("copies", "copies", ".3g"),
    Column("CPU s/GB", "cpu_s_per_gb", ".3g"),
    Column("peak memory", _peak),
)
CAPTIONS = {
    LATENCY: "Latency: one worker calls one server, which echoes the payload",
    BANDWIDTH: "Bandwidth: one worker calls one server, which acknowledges the payload",
    PS_THROUGHPUT: "Parameter servers: every worker calls every server, which echoes the payload",
    MIMIC: "Mimic: every node serves and calls all others, which echo the payload",
}
TABLES = (
    *(Table(EACH, title, _rows_of(benchmark)) for benchmark, title in CAPTIONS.items()),
    Table(
        (
            Column("payload", "size", format_size),
            Column("server", lambda row: "reads" if row["reads"] else "does not read"),
            TRANSPORT,
            Column("CPU s/GB", "server_cpu_s_per_gb", ".3g"),
            Column("of tcp's", lambda row: row.get("server_cpu_of_tcp"), ".2f"),
            RATE,
            TARGET,
        ),
        "Receiver: processor time of the server alone",
        _rows_of(RECEIVER),
    ),
    Table(
        (
            Column("connection", "connection"),
            TRANSPORT,
            Column("p50 us", "p50_us", ".4g"),
            P99,
            Column("of tcp's", lambda row: row.get("of_tcp"), ".2f"),
            _spread("of_tcp_spread"),
            TARGET,
        ),
        "Connect: from making a channel to the reply of its first call",
        _rows_of(CONNECT, idle=False),
    ),
    Table(
        (
            Column("idle connections", "connections"),
            TRANSPORT,
            *(_role(role, "bytes_of_connection", "B") for role in ("server", "worker")),
            *(_role(role, "bytes_above_tcp", "above tcp") for role in ("server", "worker")),
            TARGET,
        ),
        "Connect: memory of an idle connection, by side",
        _rows_of(CONNECT, idle=True),
    ),
    Table(
        (
            Column("calls", lambda row: row.get("rpc_type")),
            Column(
                "channels",
                lambda row: row.get("channels") and f"{row['channels']} x {row['outstanding']}",
            ),
            MODE,
            Column("payload", "size", format_size),
            TRANSPORT,
            _first("rpc_s", ".4g"),
            Column("p50 us", "p50_us", ".4g"),
            P99,
            BESIDE_TCP,
            _spread("ratio_spread"),
            TARGET,
        ),
        "qps: gRPC's own driver and workers",
        _rows_of(QPS),
    ),
)


def _measured(facts: Facts) -> list[Row]:
    return [row for row in rows_of(facts) if row["transport"] is not None]


def size_charts(facts: Facts) -> list[str]:
    """Draw latency and bandwidth by plain size, where there are several."""
    return [*_size_charts(_measured(facts))]


def _size_charts(rows: Sequence[Row]) -> Iterator[str]:
    for benchmark, key, unit, write in (
        (LATENCY, "p50_us", "median", duration),
        (BANDWIDTH, "gb_s", "GB/s", plain),
    ):
        for mode in dict.fromkeys(row["mode"] for row in rows):
            wanted = (benchmark, mode, PLAIN)
            mine = [
                {**row, "error": None}
                for row in rows
                if (row["benchmark"], row["mode"], row["scheme"]) == wanted
            ]
            if len({row["size"] for row in mine}) > 1:
                chart = BySize(
                    f"gRPC {benchmark}, {mode}",
                    *(unit, key),
                    x="bytes",
                    series="transport",
                    order=[*TRANSPORTS],
                    write_y=write,
                )
                yield from chart({"rows": mine})


def _beside_tcp(benchmark: str, title: str) -> Bars:
    return Bars(
        title,
        *(_case, "ratio_to_tcp", "x"),
        series="transport",
        rows=_measured,
        where=lambda row: (
            row["benchmark"] == benchmark
            and row["transport"] != TCP
            and row["ratio_to_tcp"] is not None
        ),
        write=lambda row: times(row["ratio_to_tcp"]),
        note="Dashed: as fast as TCP. Longer is better.",
        baseline=1.0,
    )


def _figure_of(benchmark: str, title: str, value: str, unit: str) -> Bars:
    return Bars(
        title,
        *(_case, value, unit),
        series="transport",
        rows=_measured,
        where=lambda row: row["benchmark"] == benchmark and row[value] is not None,
    )


def _case(row: Row) -> str:
    """Name what a row measures."""
    if row["benchmark"] == QPS:
        return f"{row['rpc_type']}, {row['mode']}, {row['channels']} x {row['outstanding']}"
    if row["benchmark"] == CONNECT:
        return f"{row['connection']} connection"
    if row["benchmark"] == RECEIVER:
        return "it reads the payload" if row["reads"] else "it does not read the payload"
    name = format_size(row["size"]) if row["scheme"] == PLAIN else row["scheme"]
    return f"{name}, {row['mode']}"


def compared(facts: Facts) -> list[Row]:
    """Return the rows of Farwrite that are compared with TCP."""
    return [
        row
        for row in rows_of(facts)
        if row["transport"].startswith("farwrite-") and row["ratio_to_tcp"] is not None
    ]


def gains(facts: Facts) -> list[Gain]:
    """Compare every row of Farwrite with TCP."""
    return [
        Gain(
            f"gRPC {row['benchmark']}: {_case(row)}, {row['transport']}",
            row["ratio_to_tcp"],
            "gRPC over TCP",
        )
        for row in compared(facts)
    ]


def cards(facts: Facts) -> list[Card]:
    """Choose the largest gain of latency and of throughput."""
    return [
        card
        for benchmark, what in (
            (LATENCY, "less latency of a gRPC call than over TCP"),
            (PS_THROUGHPUT, "gRPC calls a second to parameter servers, beside TCP"),
        )
        for card in largest(
            [
                Gain(_case(row), row["ratio_to_tcp"], "gRPC over TCP")
                for row in compared(facts)
                if row["benchmark"] == benchmark
            ],
            what,
        )
    ]


BENCHMARK = Benchmark(
    name="grpc",
    question="measure gRPC programs over Farwrite, TCP and MPI",
    description="Measure a plain C++ program of gRPC: latency, bandwidth, throughput of parameter"
    " servers, nodes that all call each other, the receiver's processor time, new and idle"
    " connections, and gRPC's own benchmark. Transports take turns. Payloads have ten buffers"
    " (uniform, random, skew) or one of a plain size. A checkout on Debian 12 unpacks gRPC and"
    " compiles the program by itself. By default the run takes less than 10 minutes on two"
    " processors.",
    title="gRPC programs: latency and throughput",
    example="farwrite bench grpc latency --quick",
    more_options=add_benchmarks,
    options=OPTIONS,
    plan=run_of,
    seconds=lambda run: expected_seconds(run.plan),
    measure=measure,
    summary=lambda run: (
        f"{_of_rounds(run)} of {run.plan.pace.rounds} rounds of {run.plan.pace.seconds:g} s"
    ),
    settings=settings,
    notes=lambda _: NOTES,
    tables=TABLES,
    sentences=sentences,
    charts=(
        size_charts,
        _beside_tcp(LATENCY, "Latency: how many times less than over TCP"),
        _beside_tcp(BANDWIDTH, "Bandwidth: how many times that of TCP"),
        _beside_tcp(PS_THROUGHPUT, "Parameter servers: calls a second, times TCP's"),
        _beside_tcp(MIMIC, "Nodes that all call each other: calls a second, times TCP's"),
        _figure_of(
            RECEIVER, "Processor time of the receiving server", "server_cpu_s_per_gb", "s/GB"
        ),
        _figure_of(CONNECT, "A connection and its first call, median", "p50_us", "µs"),
        _figure_of(QPS, "gRPC's own benchmark: calls a second", "rpc_s", ""),
    ),
    gains=gains,
    cards=cards,
)
