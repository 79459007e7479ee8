"""The subcommand ``farwrite bench p2p``: its options, its table and its JSON file."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from farwrite import trace
from farwrite.info import memory_available
from farwrite.units import format_size
from farwrite_bench import p2p, two_hosts_command
from farwrite_bench.figures import write_json
from farwrite_bench.options import add_number, add_shared, size, sizes
from farwrite_bench.plan import (
    DEFAULT_SIZES,
    FABRIC_OPS,
    MEMORY_PER_POOL,
    MIB,
    OPS,
    POOL_BYTES,
    QUICK_POOL_BYTES,
    QUICK_ROUNDS,
    QUICK_SIZES,
    ROUNDS,
    Plan,
    expected_seconds,
)
from farwrite_bench.record import Record
from farwrite_bench.table import HEADERS, ProgressBar, cells, markdown_table, text_table

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[Any]

SPARE_BYTES = 256 * MIB
"""Memory for everything but the pools, such as the two interpreters."""


def add_parser(kinds: Subparsers) -> None:
    """Add the subcommand ``p2p``."""
    parser = kinds.add_parser(
        "p2p",
        help="measure write, read, notify and alias between two processes",
        description="Move stamped payloads between two processes. write: the sender writes into the"
        " receiver's memory and notifies it. read: the receiver reads the sender's memory. notify:"
        " the sender sends a notification without bytes, in one row for all sizes. alias: the"
        " sender sends a notification, and the receiver opens a view of the sender's memory.",
        epilog="Example: farwrite bench p2p --op write --sizes 4K,64M",
    )
    parser.add_argument(
        "--fabric",
        help="shm (the default) is compared with copies in shared memory, tcp with plain sockets;"
        " between hosts any fabric (default: Farwrite chooses)",
    )
    parser.add_argument(
        "--sizes",
        type=sizes,
        metavar="8,4K,...",
        help="bytes of one transfer (default: 8,4K,64K,256K,1M,16M,64M,256M)",
    )
    parser.add_argument(
        "--op",
        action="append",
        type=_names,
        metavar="|".join(OPS),
        help="operation to measure, or a list with commas; may be given several times (default:"
        " all)",
    )
    parser.add_argument(
        "--wait",
        choices=("poll", "block"),
        default="poll",
        help="how a receiver waits: poll keeps its core busy, block sleeps (default: poll)",
    )
    parser.add_argument(
        "--lanes", type=int, default=1, metavar="N", help="threads in each process (default: 1)"
    )
    parser.add_argument(
        "--window",
        type=int,
        metavar="N",
        help="transfers under way on each lane (default: 4; between hosts: 128)",
    )
    add_number(parser, "--rounds", ROUNDS, quick=QUICK_ROUNDS)
    parser.add_argument(
        "--pool",
        type=size,
        metavar="SIZE",
        help="memory that the transfers use in rotation (default: 1G; --quick: 64M; between hosts:"
        " 256M and 16M)",
    )
    add_shared(parser, "--quick", "--json", "--markdown")
    trace.add_option(parser)
    two_hosts_command.add_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measure, print the table and write the JSON file; return 1 if a payload arrived wrong."""
    if arguments.rounds is None:
        arguments.rounds = QUICK_ROUNDS if arguments.quick else ROUNDS
    if arguments.serve:
        return two_hosts_command.run_serve(arguments)
    if arguments.peer:
        return two_hosts_command.run_peer(arguments)
    record = Record("p2p", quick=arguments.quick)
    fabric = arguments.fabric or "shm"
    pool = arguments.pool or (QUICK_POOL_BYTES if arguments.quick else POOL_BYTES)
    affordable = affordable_pool(pool, memory_available())
    default_sizes = QUICK_SIZES if arguments.quick else DEFAULT_SIZES
    plan = Plan(
        fabric=fabric,
        ops=tuple(
            dict.fromkeys(op for ops in arguments.op or [FABRIC_OPS.get(fabric, OPS)] for op in ops)
        ),
        sizes=arguments.sizes or tuple(each for each in default_sizes if each <= affordable // 2),
        wait=arguments.wait,
        lanes=arguments.lanes,
        window=4 if arguments.window is None else arguments.window,
        pool_bytes=affordable,
        rounds=arguments.rounds,
        quick=arguments.quick,
    )
    record.notes += _notes(plan, pool)
    record.announce(expected_seconds(plan))
    bar = ProgressBar()
    try:
        result = p2p.run(plan, bar)
    finally:
        bar.clear()

    facts = record.machine
    table = markdown_table if arguments.markdown else text_table
    print(
        f"{facts['cpu']}, {facts['cpus']} CPUs, Linux {facts['kernel']}, copy kernel"
        f" {facts['copy_kernel']}, huge pages {facts['shm_huge_pages']}, load {record.load[0]};"
        f" fabric {plan.fabric}, wait {plan.wait}, lanes {plan.lanes}, window {plan.window}, pool"
        f" {format_size(plan.pool_bytes)}, median of {plan.rounds} rounds\n"
    )
    rows = result.rows
    print("\n".join(table(HEADERS, [cells(row) for row in rows])))
    for sentence in p2p.alias_sentence(rows):
        print(f"\n{sentence}")
    write_json(
        arguments.json,
        record.facts(
            plan={
                "fabric": plan.fabric,
                "ops": plan.ops,
                "wait": plan.wait,
                "pool_bytes": plan.pool_bytes,
                "rounds": plan.rounds,
            },
            first_use=result.first_use,
            rows=rows,
        ),
    )
    return 0 if all(row["verified"] for row in rows) else 1


def affordable_pool(pool: int, available: int, pools: float = MEMORY_PER_POOL) -> int:
    """Lower `pool` to what `available` bytes allow: a whole number of MiB, and at least 4 MiB.

    A run needs the memory of `pools` pools.
    """
    most = int((available - SPARE_BYTES) / pools) // MIB * MIB
    return min(pool, max(most, 4 * MIB))


def _notes(plan: Plan, wanted_pool: int) -> list[str]:
    notes = []
    if plan.pool_bytes < wanted_pool:
        notes.append(
            f"the available memory allows a pool of {format_size(plan.pool_bytes)} instead of"
            f" {format_size(wanted_pool)}"
        )
    if plan.pool_bytes < POOL_BYTES:
        notes.append(
            f"a pool of {format_size(plan.pool_bytes)} may fit into the caches, so large transfers"
            " are not cold; do not quote these figures"
        )
    return notes


def _names(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split(",") if part)
