"""``farwrite bench grpc``: payloads of unmodified gRPC programs over several transports."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from farwrite.cli_parser import did_you_mean
from farwrite.units import format_size, parse_seconds
from farwrite_bench.grpc import plan as of
from farwrite_bench.grpc.build import find_tools
from farwrite_bench.grpc.connect import IDLE
from farwrite_bench.grpc.payload import BUFFERS, CATEGORIES, LARGE, PLAIN, SCHEMES, SEED
from farwrite_bench.grpc.plan import (
    BANDWIDTH,
    CONNECT,
    LATENCY,
    MIMIC,
    PS_THROUGHPUT,
    QPS,
    RECEIVER,
)
from farwrite_bench.grpc.process import SERVER, WORKER
from farwrite_bench.grpc.rows import compared
from farwrite_bench.grpc.run import run
from farwrite_bench.grpc.transport import MPI, TCP, TRANSPORTS
from farwrite_bench.harness import option
from farwrite_bench.harness.benchmark import Benchmark
from farwrite_bench.harness.chart import Bars, BySize, Chart
from farwrite_bench.harness.column import Column, Table, marked
from farwrite_bench.harness.option import Option
from farwrite_bench.options import count, size, sizes
from farwrite_bench.record import Record
from farwrite_bench.report.numbers import Write, duration, rate
from farwrite_bench.report.parts import Card, Facts, Gain, Row, largest
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
DEFAULT_TRANSPORTS = ", ".join(key for key, each in TRANSPORTS.items() if each.is_default)


def plan(arguments: argparse.Namespace, record: Record) -> of.GrpcPlan:
    """Make the plan from the options, and find the programs that it runs."""
    made = of.make_plan(arguments)
    tools = find_tools(
        mpi=any(transport.key == MPI for transport in made.transports),
        qps=QPS in made.benchmarks,
        must_have_qps=QPS in arguments.benchmark,
    )
    record.notes += tools.missing.values()
    return replace(made, tools=tools)


def sentences(facts: Facts) -> Iterator[str]:
    """Name the payloads, and how each transport and the programs are set up."""
    settings = facts["settings"]
    yield f"payload: {settings['payload']}"
    for key, line in settings["grpc"].items():
        yield f"{key}: {line}"
    yield f"malloc: {settings['malloc']}"
    if settings["mpi"] is not None:
        yield f"mpi: {settings['mpi']}"


def case(row: Row) -> str:
    """Name what the transports of a row did."""
    if row["benchmark"] == QPS:
        return f"{row['rpc_type']}, {row['mode']}, {row['channels']} x {row['outstanding']}"
    if row["benchmark"] == CONNECT:
        return f"{row['connection']} connection"
    if row["benchmark"] == RECEIVER:
        return f"{format_size(row['size'])}, {'read' if row['reads'] else 'not read'}"
    payload = format_size(row["size"]) if row["scheme"] == PLAIN else row["scheme"]
    return f"{payload}, {row['mode']}"


def _gain(named: str, row: Row) -> Gain:
    return Gain(named, row["ratio_to_tcp"], "gRPC over TCP")


def gains(facts: Facts) -> list[Gain]:
    """Compare every row of Farwrite with TCP."""
    return [
        _gain(f"gRPC {row['benchmark']}: {case(row)}, {row['transport']}", row)
        for row in compared(facts)
    ]


def cards(facts: Facts) -> list[Card]:
    """Choose the largest gain of latency and of throughput."""
    found: list[Card] = []
    for benchmark, what in (
        (LATENCY, "less latency of a gRPC call than over TCP"),
        (PS_THROUGHPUT, "gRPC calls a second to parameter servers, beside TCP"),
    ):
        rows = [row for row in compared(facts) if row["benchmark"] == benchmark]
        found += largest([_gain(case(row), row) for row in rows], what)
    return found


def _of(benchmark: str, **wanted: object) -> Callable[[Row], bool]:
    """Select the rows of a benchmark that have these values."""
    return lambda row: row["benchmark"] == benchmark and wanted.items() <= row.items()


def _table(title: str, where: Callable[[Row], bool], named: int, *columns: Column) -> Table:
    return Table(columns, title, lambda facts: list(filter(where, facts["rows"])), named)


def _payload(row: Row) -> str:
    plain = row["scheme"] == PLAIN
    return format_size(row["size"]) if plain else f"{row['scheme']}, {row['size']} B"


def _rate(head: str, key: str, form: str) -> Column:
    """Make the first column of figures, which says where a row has none."""
    return Column(head, lambda row: "skipped" if row["skipped"] else format(row[key], form))


def _maybe(head: str, key: str, form: str | Callable[..., str] = "") -> Column:
    """Make the column of what not every row has."""
    return Column(head, lambda row: row.get(key), form)


def _by_role(head: str, key: str) -> Iterator[Column]:
    def of_role(role: str) -> Column:
        return Column(f"{role} {head}", lambda row: (row.get(key) or {}).get(role), ".0f")

    return map(of_role, (SERVER, WORKER))


def _spread(key: str) -> Column:
    return _maybe("spread", key, lambda ends: f"{ends[0]:.2f}-{ends[1]:.2f}")


TRANSPORT, MODE = Column("transport", "transport"), Column("mode", "mode")
P50, P99 = Column("p50 us", "p50_us", ".4g"), Column("p99 us", "p99_us", ".4g")
GB_S, RATIO = Column("GB/s", "gb_s", ".3g"), Column("x tcp", "ratio_to_tcp", ".2f")
TARGET = Column("target", lambda row: marked(row.get("target"), row.get("target_met")))
OF_PAYLOADS = (
    Column("payload", _payload),
    MODE,
    TRANSPORT,
    _rate("p50 us", "p50_us", ".4g"),
    P99,
    GB_S,
    Column("rpc/s", "rpc_s", ".4g"),
    RATIO,
    Column("copies", "copies", ".3g"),
    Column("CPU s/GB", "cpu_s_per_gb", ".3g"),
    Column("peak memory", "peak_bytes", lambda held: ", ".join(map(format_size, held.values()))),
)
PAYLOAD_TABLES = {
    LATENCY: "Latency: one worker calls one server, which echoes the payload",
    BANDWIDTH: "Bandwidth: one worker calls one server, which acknowledges the payload",
    PS_THROUGHPUT: "Parameter servers: every worker calls every server, which echoes the payload",
    MIMIC: "Mimic: every node serves and calls all others, which echo the payload",
}
TABLES = (
    *(_table(title, _of(name), 3, *OF_PAYLOADS) for name, title in PAYLOAD_TABLES.items()),
    _table(
        "Receiver: processor time of the server alone",
        _of(RECEIVER),
        3,
        Column("payload", "size", format_size),
        Column("server", lambda row: "reads" if row["reads"] else "does not read"),
        TRANSPORT,
        _rate("CPU s/GB", "server_cpu_s_per_gb", ".3g"),
        _maybe("of tcp's", "server_cpu_of_tcp", ".2f"),
        GB_S,
        TARGET,
    ),
    _table(
        "Connect: from making a channel to the reply of its first call",
        lambda row: row["benchmark"] == CONNECT and row["connection"] != IDLE,
        2,
        Column("connection", "connection"),
        TRANSPORT,
        P50,
        P99,
        _maybe("of tcp's", "of_tcp", ".2f"),
        _spread("of_tcp_spread"),
        TARGET,
    ),
    _table(
        "Connect: memory of an idle connection, by side",
        _of(CONNECT, connection=IDLE),
        2,
        Column("idle connections", "connections"),
        TRANSPORT,
        *_by_role("B", "bytes_of_connection"),
        *_by_role("above tcp", "bytes_above_tcp"),
        TARGET,
    ),
    _table(
        "qps: gRPC's own driver and workers",
        _of(QPS),
        5,
        _maybe("calls", "rpc_type"),
        Column(
            "channels",
            lambda row: None if row["skipped"] else f"{row['channels']} x {row['outstanding']}",
        ),
        MODE,
        Column("payload", "size", format_size),
        TRANSPORT,
        _rate("rpc/s", "rpc_s", ".4g"),
        P50,
        P99,
        RATIO,
        _spread("ratio_spread"),
        TARGET,
    ),
)


def _bars(title: str, value: str, unit: str, where: Callable[[Row], bool], **more: Any) -> Bars:
    return Bars(title, case, value, unit, series="transport", where=where, of=TCP, **more)


def _by_size(benchmark: str, mode: str, value: str, unit: str, write: Write) -> Chart:
    title, where = f"gRPC {benchmark}, {mode}", _of(benchmark, scheme=PLAIN, mode=mode)
    return BySize(
        *(title, unit, value, _bars(title, value, unit, where)),
        x="bytes of the payload",
        series="transport",
        order=tuple(TRANSPORTS),
        where=where,
        write_y=write,
    )


def _times(row: Row) -> str:
    return times(row["ratio_to_tcp"])


def _beside_tcp(benchmark: str, title: str) -> Chart:
    def where(row: Row) -> bool:
        others = row["benchmark"] == benchmark and row["transport"] != TCP
        return others and row["ratio_to_tcp"] is not None

    note = "Dashed: as fast as TCP. Longer is better."
    return _bars(title, "ratio_to_tcp", "", where, note=note, baseline=1.0, write=_times)


CHARTS: tuple[Chart, ...] = (
    *(_by_size(LATENCY, mode, "p50_us", "µs", duration) for mode in of.MODES),
    *(_by_size(BANDWIDTH, mode, "gb_s", "GB/s", rate) for mode in of.MODES),
    _beside_tcp(LATENCY, "Latency: how many times less than over TCP"),
    _beside_tcp(BANDWIDTH, "Bandwidth: how many times that of TCP"),
    _beside_tcp(PS_THROUGHPUT, "Parameter servers: calls a second, times TCP's"),
    _beside_tcp(MIMIC, "Nodes that all call each other: calls a second, times TCP's"),
    _bars("Processor time of the receiving server", "server_cpu_s_per_gb", "s/GB", _of(RECEIVER)),
    _bars(
        "A connection and its first call, median",
        *("p50_us", "µs", lambda row: row["benchmark"] == CONNECT and row["connection"] != IDLE),
    ),
    _bars("gRPC's own benchmark: calls a second", "rpc_s", "", _of(QPS)),
)


def _benchmark(text: str) -> str:
    if text not in of.BENCHMARKS:
        hint = did_you_mean(text, of.BENCHMARKS)
        raise argparse.ArgumentTypeError(
            f"no benchmark {text!r}{hint or '; use ' + ', '.join(of.BENCHMARKS)}"
        )
    return text


def _argument(text: str) -> tuple[str, int]:
    name, equals, value = text.partition("=")
    if not (name and equals) or not value.removeprefix("-").isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=INTEGER, as grpc.http2.bdp_probe=1")
    return name, int(value)


def _nodes(text: str) -> int:
    if (nodes := count(text)) < 2:
        raise argparse.ArgumentTypeError("1 node has no other node to call; use 2 or more")
    return nodes


def _seconds(text: str) -> float:
    try:
        length = parse_seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not 0 < length <= 600:
        raise argparse.ArgumentTypeError(f"{text!r} is no length of a turn; use up to 600 s")
    return length


def _sizes(text: str) -> tuple[int, ...]:
    found = sizes(text)
    if not found or min(found) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} has no sizes of 1 byte or more, as 64,1K,1M")
    return found


def _add_benchmarks(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "benchmark",
        nargs="*",
        type=_benchmark,
        metavar="BENCHMARK",
        help=f"one or more of {', '.join(of.BENCHMARKS)} (default: all)",
    )


BENCHMARK = Benchmark(
    name="grpc",
    description="Measure a plain C++ program of gRPC: latency, bandwidth, throughput of"
    " parameter servers, nodes that all call each other, the receiver's processor time, new"
    " and idle connections, and gRPC's own benchmark. Payloads have ten buffers (uniform, random,"
    " skew) or one of a plain size. Transports take turns. A checkout on Debian 12 unpacks gRPC and"
    " compiles the program by itself.",
    more_help="By default the run takes less than 10 minutes on two processors.",
    title="gRPC programs: latency and throughput",
    example="farwrite bench grpc latency --quick",
    more_options=_add_benchmarks,
    options=(
        option.chosen(
            "--transport",
            TRANSPORTS,
            f"{DEFAULT_TRANSPORTS}; of {RECEIVER}, {CONNECT} and {QPS}: tcp, farwrite-shm",
            filled=False,
        ),
        Option(
            "--address", "where servers listen for TCP", "127.0.0.1", kind=str, metavar="ADDRESS"
        ),
        Option(
            "--argument",
            "a channel argument of gRPC for all transports, instead of the ones that are printed;"
            " may be given several times",
            kind=_argument,
            metavar="NAME=N",
            many=True,
        ),
        *option.group(
            "payloads",
            option.chosen("--scheme", SCHEMES, "all; with --size, none", filled=False),
            option.chosen(
                *("--mode", of.MODES, "both for latency with a scheme, else non-serialized"),
                filled=False,
            ),
            Option(
                "--size",
                "also payloads of one buffer of these sizes (default: 64,1K,64K,1M,16M for latency,"
                " 16M for receiver)",
                kind=_sizes,
                metavar="64,1K,...",
            ),
            Option("--iovec-count", "buffers of a payload", BUFFERS, kind=count),
            *(
                Option(
                    f"--{category}",
                    f"bytes of a {category} buffer",
                    default,
                    kind=size,
                    metavar="BYTES",
                )
                for category, default in CATEGORIES.items()
            ),
            Option(
                "--bias",
                "skew: category of 60 %% of the buffers; large: 30 %% medium, 10 %% small; medium:"
                " 30 %% large, 10 %% small; small: 30 %% medium, 10 %% large",
                LARGE,
                choices=CATEGORIES,
            ),
            Option(
                "--category",
                "random: a category to choose from; two are needed",
                tuple(CATEGORIES),
                choices=CATEGORIES,
                many=True,
                shown="all",
            ),
            Option("--seed", "random: seed of the choice", SEED, kind=int),
            Option(
                "--payload",
                "fresh: every call allocates its payload; reused: all calls send one",
                of.FRESH,
                choices=of.PAYLOADS,
            ),
        ),
        *option.group(
            "processes",
            Option("--servers", "servers of ps-throughput", 2, kind=count),
            Option("--workers", "workers of ps-throughput", 3, kind=count),
            Option("--server-threads", "threads that serve in each server", 1, kind=count),
            Option(
                "--window", "calls under way to a server in bandwidth and receiver", 2, kind=count
            ),
            Option(
                "--connections",
                "idle connections of the connect benchmark",
                of.CONNECTIONS,
                of.QUICK_CONNECTIONS,
                kind=count,
            ),
            Option("--nodes", "of mimic", 3, kind=_nodes),
        ),
        *option.group(
            "length",
            Option(
                "--full",
                f"the times of TF-gRPC-Bench: {of.FULL.warm_up:g} s to warm up,"
                f" {of.FULL.seconds:g} s, the mean of {of.FULL.rounds} rounds; takes hours unless"
                " other options select less",
            ),
            Option(
                "--rounds",
                "turns of each transport",
                kind=count,
                shown=f"{of.SHORT.rounds}, of connect {of.SHORT.connect_rounds}, of qps"
                f" {of.SHORT.qps_rounds}; --quick: {of.QUICK.rounds}",
            ),
            Option(
                "--seconds",
                "measured seconds of a turn",
                kind=_seconds,
                metavar="S",
                shown=f"{of.SHORT.seconds:g}, of qps {of.SHORT.qps_seconds};"
                f" --quick: {of.QUICK.seconds:g}, of qps {of.QUICK.qps_seconds}",
            ),
        ),
    ),
    plan=plan,
    seconds=of.expected_seconds,
    measure=run,
    settings=lambda _: {},
    summary=lambda plan: (
        f"{plan.pace.middle} of {plan.pace.rounds} rounds of {plan.pace.seconds:g} s"
    ),
    notes=lambda _: NOTES,
    tables=TABLES,
    sentences=sentences,
    charts=CHARTS,
    gains=gains,
    cards=cards,
)
