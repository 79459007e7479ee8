"""The subcommand ``farwrite bench tensor``: its options, its table and its files."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from farwrite.info import memory_available
from farwrite.units import format_size
from farwrite_bench.cluster.plugin import measuring, programs
from farwrite_bench.cluster.transport import require
from farwrite_bench.figures import write, write_json
from farwrite_bench.options import add_choices, add_number, add_shared, count, sizes
from farwrite_bench.record import Record
from farwrite_bench.table import markdown_table, text_table
from farwrite_bench.tensor.plan import (
    CHAIN,
    CHAIN_BYTES,
    CHAIN_HOPS,
    CONSUMERS,
    DEFAULT_SIZES,
    ENCODED,
    GRPC_LIMIT,
    MEMORY_PER_SIZE,
    OTHER_MEMORY_PER_SIZE,
    PARALLEL_BYTES,
    PARALLEL_TENSORS,
    QUICK_ROUNDS,
    QUICK_SIZES,
    RAW,
    ROUNDS,
    SMALL_CASES,
    TCP_MEMORY_PER_SIZE,
    TRANSPORTS,
    Case,
    TensorPlan,
    expected_seconds,
)
from farwrite_bench.tensor.raw import tuning
from farwrite_bench.tensor.run import run as measure
from farwrite_bench.tensor.tables import HEADERS, against_raw, cells, failures, picture

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[Any]

SPARE_BYTES = 4 * 2**30
"""Memory for the interpreters, each of which loads TensorFlow."""
ELEMENT = 4
NOTES = (
    "A client in a third process runs the steps in sessions on two servers. added us: the time of a"
    " step minus the time of an empty step, which runs an operation in each task and moves no"
    " tensor. The empty step of the raw socket is an answer of one byte.",
    "The tensor is a variable, the same one in every step. It cannot rotate over cold memory as in"
    " bench p2p. Small tensors therefore stay in the caches, on every transport.",
    "of local: the step divided by the step of the same graph in one process. same control: the"
    " same, after the extra time of an empty step between two tasks is added to the step in one"
    " process.",
    f"parallel: {PARALLEL_TENSORS} tensors of {format_size(PARALLEL_BYTES)} at once. chain:"
    f" {CHAIN_HOPS} tensors of {CHAIN_BYTES} bytes, each computed from the one before.",
    "cpu ms: user and system time of a step, of all processes of the transport and of the client."
    " control: control calls of a step between tasks, by Farwrite + by gRPC; stock TensorFlow does"
    " not count them.",
    "of raw: the bandwidth divided by the bandwidth of one tuned socket with the same bytes in the"
    " same rounds.",
    "gRPC has TensorFlow's defaults: messages of up to 2 GB, no compression. On every transport a"
    " server has one thread per core, and graph optimizers are off, so that the graph runs as"
    " written.",
)


def add_parser(kinds: Subparsers) -> None:
    """Add the subcommand ``tensor``."""
    parser = kinds.add_parser(
        "tensor",
        help="measure a tensor that another TensorFlow process uses",
        description="Measure how much time a tensor adds to a step of a TensorFlow session when"
        " another process uses it. slice takes one element of the tensor, reduce_max reads all of"
        f" it. parallel sends {PARALLEL_TENSORS} tensors of {format_size(PARALLEL_BYTES)} at once,"
        f" and chain {CHAIN_HOPS} dependent ones of {CHAIN_BYTES} bytes. Needs TensorFlow.",
        epilog="Example: farwrite bench tensor --sizes 4K,64M",
    )
    parser.add_argument(
        "--sizes",
        type=_sizes,
        metavar="4K,64M,...",
        help="bytes of the tensor of slice and reduce_max; 0 leaves both out (default:"
        " 4K,64K,1M,16M,64M,256M,1G; --quick: 4K,1M,64M)",
    )
    add_choices(parser, "--transport", TRANSPORTS, default="all, but raw only with --fabric tcp")
    add_shared(parser, "--fabric")
    add_choices(parser, "--consumer", (*CONSUMERS, *SMALL_CASES))
    parser.add_argument(
        "--chain",
        action="store_true",
        help="measure the chain in addition to the consumers that --consumer names",
    )
    add_number(parser, "--rounds", ROUNDS, quick=QUICK_ROUNDS, kind=count)
    add_number(parser, "--seconds", 10, kind=float)
    add_shared(parser, "--quick", "--json", "--svg", "--markdown")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measure, print the table and write the files; return 1 if a transport failed in a case."""
    require("farwrite bench tensor", "tensorflow")
    record = Record("tensor", quick=arguments.quick)
    chosen = arguments.transport or [
        key for key in TRANSPORTS if key != RAW.key or arguments.fabric == "tcp"
    ]
    transports = tuple(key for key in TRANSPORTS if key in chosen)
    over_tcp = arguments.fabric == "tcp"
    wanted = arguments.sizes or (QUICK_SIZES if arguments.quick else DEFAULT_SIZES)
    affordable_sizes = affordable(wanted, transports, memory_available(), over_tcp=over_tcp)
    if dropped := set(wanted) - set(affordable_sizes):
        names = ", ".join(map(format_size, sorted(dropped)))
        record.notes.append(f"too little memory is available for {names}; left out")
    if {*ENCODED} & {*transports} and max(affordable_sizes, default=0) >= GRPC_LIMIT:
        record.notes.append(
            f"{' and '.join(ENCODED)} are left out from {format_size(GRPC_LIMIT)} on:"
            " TensorFlow's encoding cannot have that size, and a step of stock gRPC would never end"
        )
    if RAW.key in transports:
        record.notes.append(tuning())
    consumers = {*(arguments.consumer or (*CONSUMERS, *SMALL_CASES))}
    if arguments.chain:
        consumers.add(CHAIN)
    cases = [
        Case(consumer, size)
        for consumer in CONSUMERS
        for size in affordable_sizes
        if size and consumer in consumers
    ]
    cases += [case for consumer, case in SMALL_CASES.items() if consumer in consumers]
    rounds = arguments.rounds or (QUICK_ROUNDS if arguments.quick else ROUNDS)
    plan = TensorPlan(transports, tuple(cases), rounds, arguments.seconds, arguments.fabric)
    record.announce(expected_seconds(plan))
    with measuring(*programs([TRANSPORTS[key] for key in transports])) as (bar, logs):
        rows = measure(plan, bar, logs)
    table = markdown_table if arguments.markdown else text_table
    print("\n".join(table(HEADERS, list(cells(rows)))))
    for line in (*failures(rows), *against_raw(rows), *NOTES):
        print(f"\n{line}")
    facts = record.facts(NOTES, fabric=plan.fabric, rounds=plan.rounds, rows=rows)
    write_json(arguments.json, facts)
    if arguments.svg is not None:
        write(arguments.svg, picture(rows))
    return 1 if any(row["error"] for row in rows) else 0


def affordable(
    sizes: Sequence[int], transports: Sequence[str], available: int, *, over_tcp: bool = False
) -> list[int]:
    """Leave out the sizes that need more than `available` bytes."""

    def needed(size: int) -> float:
        taking_part = (key for key in transports if key not in ENCODED or size < GRPC_LIMIT)
        return size * sum(
            MEMORY_PER_SIZE.get(key, OTHER_MEMORY_PER_SIZE)
            + (TCP_MEMORY_PER_SIZE if over_tcp and not TRANSPORTS[key].stock else 0.0)
            for key in taking_part
        )

    return [size for size in sizes if needed(size) <= max(available - SPARE_BYTES, 0)]


def _sizes(text: str) -> tuple[int, ...]:
    wanted = sizes(text)
    if any(size % ELEMENT for size in wanted):
        raise argparse.ArgumentTypeError(f"{text}: use sizes that are multiples of {ELEMENT} bytes")
    return wanted
