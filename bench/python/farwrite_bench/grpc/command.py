"""The subcommand ``farwrite bench grpc``: payloads of gRPC programs over several transports."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from farwrite_bench.figures import write, write_json
from farwrite_bench.grpc.arguments import add_arguments
from farwrite_bench.grpc.measure import Measurement
from farwrite_bench.grpc.plan import FRESH, REUSED, GrpcPlan, expected_seconds
from farwrite_bench.grpc.progress import Progress
from farwrite_bench.grpc.selection import make_plan
from farwrite_bench.grpc.tables import picture, tables
from farwrite_bench.grpc.tools import find_tools
from farwrite_bench.grpc.transport import MPI
from farwrite_bench.options import add_shared
from farwrite_bench.record import Record
from farwrite_bench.table import ProgressBar, markdown_table, text_table

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[Any]

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


def add_parser(kinds: Subparsers) -> None:
    """Add the subcommand ``grpc``."""
    parser = kinds.add_parser(
        "grpc",
        help="measure gRPC programs over Farwrite, TCP and MPI",
        description="Measure a plain C++ program of gRPC: latency, bandwidth, throughput of"
        " parameter servers, nodes that all call each other, the receiver's processor time, new"
        " and idle connections, and gRPC's own benchmark. Transports take turns. A checkout"
        " on Debian 12 unpacks gRPC and compiles the program by itself. By default the run takes"
        " less than 10 minutes on two processors.",
        epilog="Example: farwrite bench grpc latency --quick",
    )
    add_arguments(parser)
    add_shared(parser, "--json", "--svg", "--markdown")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measure, print the tables and write the files."""
    record = Record("grpc", quick=arguments.quick)
    plan = make_plan(arguments)
    tools = find_tools(plan)
    pace = plan.pace
    record.notes += tools.notes
    if arguments.quick:
        record.notes.append("a short run shows that the command works, not how fast anything is")
    seconds = expected_seconds(plan)
    record.announce(seconds)
    bar = ProgressBar()
    with tempfile.TemporaryDirectory(prefix="farwrite-bench-") as logs:
        measurement = Measurement(plan, tools, Progress(bar, seconds), Path(logs))
        try:
            rows = measurement.rows()
        finally:
            bar.clear()
    settings = {
        "warm_up_seconds": pace.warm_up,
        "seconds": pace.seconds,
        "rounds": pace.rounds,
        "of_rounds": "mean" if pace.mean else "median",
        "payload": PAYLOADS[arguments.payload],
        "server_threads": arguments.server_threads,
        "seed": arguments.seed,
        "grpc": _grpc_settings(plan, measurement.grpc),
        "malloc": MALLOC,
        "mpi": tools.openmpi.settings() if tools.openmpi else None,
    }
    print(
        f"{record.conditions()}; {settings['of_rounds']} of {pace.rounds} rounds of"
        f" {pace.seconds:g} s"
    )
    table = markdown_table if arguments.markdown else text_table
    for title, headers, cells in tables(rows):
        print(f"\n{title}\n")
        print("\n".join(table(headers, cells)))
    print(f"\npayload: {settings['payload']}")
    for key, line in _grpc_settings(plan, measurement.grpc).items():
        print(f"{key}: {line}")
    print(f"malloc: {MALLOC}")
    if tools.openmpi is not None:
        print(f"mpi: {settings['mpi']}")
    for note in NOTES:
        print(f"\n{note}")
    write_json(arguments.json, record.facts(NOTES, settings=settings, rows=rows))
    drawn = picture(rows)
    if arguments.svg is not None and drawn is not None:
        write(arguments.svg, drawn)
    return 0


def _grpc_settings(plan: GrpcPlan, version: str) -> dict[str, str]:
    """Describe how gRPC is set up, by transport."""
    return {
        transport.key: " ".join(
            [
                f"gRPC {version}:",
                *(f"{name}={value}" for name, value in plan.arguments_of(transport).items()),
            ]
        )
        for transport in plan.transports
        if transport.key != MPI
    }
