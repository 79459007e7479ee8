"""The subcommand ``farwrite bench feed``: its options, its table and its file."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from farwrite.errors import ResourceExhausted
from farwrite.info import memory_available
from farwrite.units import format_size
from farwrite_bench.cluster.plugin import measuring, programs
from farwrite_bench.cluster.transport import STOCK_PROTOCOL, require
from farwrite_bench.feed.plan import (
    DEFAULT_TARGET,
    ELEMENT,
    MEMORY_PER_SIZE,
    QUICK_SIZES,
    SIZES,
    TARGETS,
    WAYS,
    FeedPlan,
    expected_seconds,
)
from farwrite_bench.feed.rows import Row
from farwrite_bench.feed.run import run as measure
from farwrite_bench.figures import write_json
from farwrite_bench.options import add_choices, add_number, add_shared, count
from farwrite_bench.options import sizes as list_of_sizes
from farwrite_bench.record import Record
from farwrite_bench.table import markdown_table, text_table
from farwrite_bench.tensor.plan import GRPC_LIMIT

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[Any]

ROUNDS, QUICK_ROUNDS = 9, 2
SIZE_SECONDS = 60
SPARE_BYTES = 3 * 2**30
"""Memory for the interpreters, each of which loads TensorFlow."""
HEADERS = (
    "operation",
    "size",
    "way",
    "target",
    "ms",
    "spread",
    "GB/s",
    "of grpc",
    "spread",
    "cpu ms",
    "by grpc",
    "socket bytes",
)
NOTES = (
    "A v1 client without a server feeds a NumPy array into a variable of a server in another"
    " process, and fetches the variable. Every turn feeds new values, and all of what a turn"
    " fetches is compared with them.",
    "ms: the median over the rounds of a turn's median; spread is the lowest and the highest"
    " round. 1 GB is 10^9 bytes. of grpc: the time divided by stock gRPC's in the same round. cpu"
    " ms: user and system time of client and server. by grpc: tensors that Farwrite's server got"
    " or gave by gRPC. cpu ms, by grpc and socket bytes are per feed or fetch.",
)


def add_parser(kinds: Subparsers) -> None:
    """Add the subcommand ``feed``."""
    parser = kinds.add_parser(
        "feed",
        help="measure feeds and fetches of a TensorFlow client",
        description="Measure how long a v1 client, whose master is in another process, takes to"
        " feed a tensor and to fetch one. Servers of stock gRPC and of Farwrite take turns. Needs"
        " TensorFlow.",
        epilog="Example: farwrite bench feed --sizes 4K,64M",
    )
    parser.add_argument(
        "--sizes",
        type=_sizes,
        metavar="4K,64M,...",
        help="bytes of the tensor (default: 4K,64K,1M,16M,64M,256M; --quick: 4K,1M)",
    )
    add_choices(parser, "--way", WAYS)
    parser.add_argument(
        "--target",
        choices=TARGETS,
        default=DEFAULT_TARGET,
        help="scheme of the target by which the client reaches Farwrite's server (default:"
        f" {DEFAULT_TARGET}); stock TensorFlow's is always {STOCK_PROTOCOL}",
    )
    add_number(parser, "--rounds", ROUNDS, quick=QUICK_ROUNDS, kind=count)
    add_number(parser, "--seconds", SIZE_SECONDS, kind=float)
    add_shared(parser, "--fabric", "--quick", "--json", "--markdown")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measure, print the table and write the JSON file."""
    require("farwrite bench feed", "tensorflow")
    record = Record("feed", quick=arguments.quick)
    wanted = arguments.sizes or (QUICK_SIZES if arguments.quick else SIZES)
    sizes = affordable(wanted, memory_available())
    if dropped := [size for size in wanted if size not in sizes]:
        names = ", ".join(map(format_size, dropped))
        record.notes.append(f"too little memory is available for {names}; left out")
    plan = FeedPlan(
        sizes=sizes,
        ways=tuple(key for key in WAYS if key in (arguments.way or WAYS)),
        rounds=arguments.rounds or (QUICK_ROUNDS if arguments.quick else ROUNDS),
        size_seconds=arguments.seconds,
        target=arguments.target,
        fabric=arguments.fabric,
    )
    record.announce(expected_seconds(plan))
    with measuring(*programs([WAYS[key] for key in plan.ways])) as (bar, logs):
        rows = measure(plan, bar, logs)
    print(
        f"{record.conditions()}; median of up to {plan.rounds} rounds, fabric"
        f" {plan.fabric or 'chosen by Farwrite'}\n"
    )
    table = markdown_table if arguments.markdown else text_table
    print("\n".join(table(HEADERS, [cells(row) for row in rows])))
    for line in NOTES:
        print(f"\n{line}")
    write_json(
        arguments.json,
        record.facts(
            NOTES,
            settings={
                "sizes": plan.sizes,
                "rounds": plan.rounds,
                "target": plan.target,
                "fabric": plan.fabric,
            },
            rows=rows,
        ),
    )
    return 0


def affordable(sizes: Sequence[int], available: int) -> tuple[int, ...]:
    """Leave out the sizes that need more than `available` bytes of memory.

    Raises
    ------
    ResourceExhausted
        If no size is left.
    """
    left = tuple(size for size in sizes if size * MEMORY_PER_SIZE + SPARE_BYTES <= available)
    if not left:
        needed = MEMORY_PER_SIZE * min(sizes) + SPARE_BYTES
        raise ResourceExhausted(
            f"bench feed: a tensor of {format_size(min(sizes))} needs {needed / 1e9:.1f} GB of"
            f" memory, and {available / 1e9:.1f} GB are available; end other programs"
        )
    return left


def cells(row: Row) -> tuple[str, ...]:
    """Format one row as the cells below `HEADERS`."""
    rounds, of_grpc = row["ms_rounds"], row["of_grpc"]
    return (
        row["operation"],
        format_size(row["size"]),
        row["way"],
        f"{row['target']}://",
        f"{row['ms']:.3f}",
        f"{min(rounds):.3f} to {max(rounds):.3f}",
        f"{row['gb_s']:.3g}",
        f"{of_grpc['median']:.2f}" if of_grpc else "-",
        f"{of_grpc['low']:.2f} to {of_grpc['high']:.2f}" if of_grpc else "-",
        f"{row['cpu_ms']:.3f}",
        "-" if row["by_grpc"] is None else f"{row['by_grpc']:g}",
        f"{row['socket_bytes']:.0f}",
    )


def _sizes(text: str) -> tuple[int, ...]:
    wanted = list_of_sizes(text)
    if not wanted or any(size % ELEMENT or not 0 < size < GRPC_LIMIT for size in wanted):
        raise argparse.ArgumentTypeError(
            f"{text!r}: use sizes that are multiples of {ELEMENT} bytes and below {GRPC_LIMIT}"
            " bytes, the limit of a protobuf message"
        )
    return wanted
