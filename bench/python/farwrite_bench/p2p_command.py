"""The subcommand ``farwrite bench p2p``: its options, its table and its file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from farwrite import trace
from farwrite.info import memory_available
from farwrite.units import format_size, parse_size
from farwrite_bench import p2p, two_hosts_command
from farwrite_bench.figures import write_json
from farwrite_bench.machine import busy_note, load, machine
from farwrite_bench.plan import (
    DEFAULT_SIZES,
    FABRIC_OPS,
    MEMORY_PER_POOL,
    MIB,
    OPS,
    POOL_BYTES,
    QUICK_POOL_BYTES,
    QUICK_SIZES,
    Plan,
)
from farwrite_bench.table import HEADERS, ProgressBar, cells, markdown_table, text_table

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[Any]

SPARE_BYTES = 256 * MIB
"""For the two interpreters and everything else."""


def add_parser(kinds: Subparsers) -> None:
    """Add the subcommand ``p2p``."""
    parser = kinds.add_parser(
        "p2p",
        help="two processes: write, read, notify, alias",
        description="Move stamped payloads between two processes. write: write_with_notify;"
        " read: the receiver reads the sender's memory; notify: a notification without bytes"
        " (one row, sizes do not matter); alias: a notification, then a view of the sender's"
        " memory.",
    )
    parser.add_argument(
        "--fabric",
        help="shm (default): beside the machine's memory; tcp: beside plain sockets; between"
        " hosts any, or what a device chooses",
    )
    parser.add_argument(
        "--sizes",
        type=_sizes,
        metavar="8,4K,...",
        help="bytes per transfer (default: 8,4K,64K,1M,16M,64M,256M)",
    )
    parser.add_argument(
        "--op",
        action="append",
        type=_names,
        metavar="|".join(OPS),
        help="may be given several times, or as a list with commas (default: all)",
    )
    parser.add_argument(
        "--wait",
        choices=("poll", "block"),
        default="poll",
        help="how a receiver waits: poll keeps its core busy, block sleeps (default: poll)",
    )
    parser.add_argument("--lanes", type=int, default=1, help="threads on either side (default: 1)")
    parser.add_argument(
        "--window", type=int, help="transfers per lane (default: 4; between hosts: 128)"
    )
    parser.add_argument("--rounds", type=int, help="measured rounds (default: 5; --quick: 2)")
    parser.add_argument(
        "--pool", type=_size, help="memory to rotate over (default: 1G; --quick: 64M)"
    )
    parser.add_argument(
        "--quick", action="store_true", help="seconds instead of minutes; not cold, not quotable"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    trace.add_option(parser)
    two_hosts_command.add_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measure, print the table, write the file; 1 if a payload was wrong."""
    if arguments.serve:
        return two_hosts_command.run_serve(arguments)
    if arguments.peer:
        return two_hosts_command.run_peer(arguments)
    averages = load()
    fabric = arguments.fabric or "shm"
    pool = arguments.pool or (QUICK_POOL_BYTES if arguments.quick else POOL_BYTES)
    affordable = affordable_pool(pool, memory_available())
    sizes = arguments.sizes or (QUICK_SIZES if arguments.quick else DEFAULT_SIZES)
    if arguments.sizes is None:
        sizes = tuple(size for size in sizes if size <= affordable // 2)
    plan = Plan(
        fabric=fabric,
        ops=tuple(
            dict.fromkeys(op for ops in arguments.op or [FABRIC_OPS.get(fabric, OPS)] for op in ops)
        ),
        sizes=tuple(dict.fromkeys(sizes)),
        wait=arguments.wait,
        lanes=arguments.lanes,
        window=4 if arguments.window is None else arguments.window,
        pool_bytes=affordable,
        rounds=arguments.rounds if arguments.rounds is not None else 2 if arguments.quick else 5,
        quick=arguments.quick,
    )
    notes = _notes(plan, pool, averages)
    for note in notes:
        print(f"bench: {note}", file=sys.stderr)
    bar = ProgressBar()
    try:
        rows, first_use = p2p.run(plan, bar)
    finally:
        bar.clear()

    facts = machine()
    table = markdown_table if arguments.markdown else text_table
    print(
        f"{facts['cpu']}, {facts['cpus']} CPUs, Linux {facts['kernel']}, copy kernel"
        f" {facts['copy_kernel']}, huge pages {facts['shm_huge_pages']}, load {averages[0]};"
        f" {plan.fabric}, {plan.wait}, lanes {plan.lanes}, window {plan.window}, pool"
        f" {format_size(plan.pool_bytes)}, median of {plan.rounds} rounds\n"
    )
    print("\n".join(table(HEADERS, [cells(row) for row in rows])))
    for sentence in p2p.alias_sentence(rows):
        print(f"\n{sentence}")
    write_json(
        arguments.json,
        {
            "machine": facts,
            "load": averages,
            "notes": notes,
            "plan": {
                "fabric": plan.fabric,
                "ops": plan.ops,
                "wait": plan.wait,
                "pool_bytes": plan.pool_bytes,
                "rounds": plan.rounds,
                "quick": plan.quick,
            },
            "first_use": first_use,
            "rows": rows,
        },
    )
    return 0 if all(row["verified"] for row in rows) else 1


def affordable_pool(pool: int, available: int) -> int:
    """Lower `pool` to what `available` bytes allow: a whole number of MiB, at least four."""
    most = int((available - SPARE_BYTES) / MEMORY_PER_POOL) // MIB * MIB
    return min(pool, max(most, 4 * MIB))


def _notes(plan: Plan, wanted_pool: int, averages: list[float]) -> list[str]:
    notes = []
    busy = busy_note(averages)
    if busy:
        notes.append(busy)
    if plan.pool_bytes < wanted_pool:
        notes.append(
            f"memory allows a pool of {format_size(plan.pool_bytes)} instead of"
            f" {format_size(wanted_pool)}"
        )
    if plan.pool_bytes < POOL_BYTES:
        notes.append(
            f"a pool of {format_size(plan.pool_bytes)} may stay in the caches: large transfers are"
            " not cold, and these figures not for quoting"
        )
    return notes


def _size(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(_size(part) for part in text.split(",") if part)


def _names(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split(",") if part)
