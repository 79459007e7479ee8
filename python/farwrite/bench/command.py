"""The subcommand ``farwrite bench`` and its own subcommands ``p2p``, ``memory``, ``tensor``, ..."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from farwrite import trace
from farwrite.bench import memory, p2p, two_hosts_command
from farwrite.bench.assign import command as assign
from farwrite.bench.collective import command as collective
from farwrite.bench.machine import busy_note, load, machine
from farwrite.bench.plan import (
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
from farwrite.bench.table import HEADERS, ProgressBar, cells, markdown_table, text_table
from farwrite.bench.tensor import ablations
from farwrite.bench.tensor import command as tensor
from farwrite.info import memory_available
from farwrite.units import format_size, parse_size

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[Any]

SPARE_BYTES = 256 * MIB
"""For the two interpreters and everything else."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommand ``bench``."""
    parser = subparsers.add_parser(
        "bench",
        help="measure Farwrite against the physical limit of this machine",
        description="Measure Farwrite against the physical limit, taken in turn in the same run.",
    )
    kinds = parser.add_subparsers(metavar="WHAT", required=True)
    _add_p2p(kinds)
    _add_memory(kinds)
    tensor.add_parser(kinds)
    ablations.add_parser(kinds)
    collective.add_parser(kinds)
    assign.add_parser(kinds)


def _add_p2p(kinds: Subparsers) -> None:
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
    parser.set_defaults(run=run_p2p)


def _add_memory(kinds: Subparsers) -> None:
    parser = kinds.add_parser(
        "memory",
        help="allocation, first use and copy kernels",
        description="Compare allocation with malloc, first use of memory with the kernel's own"
        " prefault, and the copy kernels with each other.",
    )
    parser.add_argument("--quick", action="store_true", help="only show that it works")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    parser.add_argument("--markdown", action="store_true", help="print Markdown tables")
    parser.set_defaults(run=run_memory)


def run_p2p(arguments: argparse.Namespace) -> int:
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
    _write_json(
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


def run_memory(arguments: argparse.Namespace) -> int:
    """Measure, print three tables, write the file."""
    averages = load()
    notes = [note for note in [busy_note(averages)] if note]
    for note in notes:
        print(f"bench: {note}", file=sys.stderr)
    plan = memory.MemoryPlan.quick() if arguments.quick else memory.MemoryPlan.full()
    bar = ProgressBar()
    try:
        facts = memory.run(plan, bar)
        facts["allocations_tuned_malloc"] = memory.tuned_allocations(plan)
    finally:
        bar.clear()
    table = markdown_table if arguments.markdown else text_table
    print("\n".join(table(*_allocation_table(facts))))
    first = facts["first_use"]
    size = format_size(first["bytes"])
    print(
        f"\nfirst use of {size}: Farwrite {first['farwrite_s']:.3f} s, the kernel's own prefault"
        f" {first['kernel_s']:.3f} s, ratio {first['ratio']:.2f} (wanted {first['target']})\n"
    )
    kernels = list(facts["copies"][0]["gb_s"])
    rows = [
        [format_size(row["size"]), *(f"{row['gb_s'][name]:.2f}" for name in kernels)]
        for row in facts["copies"]
    ]
    print("\n".join(table(["copy, GB/s", *kernels], rows)))
    _write_json(arguments.json, {"machine": machine(), "load": averages, "notes": notes, **facts})
    return 0


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


def _allocation_table(facts: dict[str, Any]) -> tuple[Sequence[str], list[list[str]]]:
    headers = ["allocate + free, 4 threads", "Farwrite ns", "malloc ns", "ratio", "wanted"]
    rows = []
    for key, name in (("allocations", "malloc"), ("allocations_tuned_malloc", "tuned malloc")):
        for entry in facts[key]:
            touched = "touched" if entry["touched"] else "not touched"
            rows.append(
                [
                    f"64 KiB to 16 MiB, {touched}, against {name}",
                    f"{entry['farwrite_ns']:.0f}",
                    f"{entry['malloc_ns']:.0f}",
                    f"{entry['ratio']:.2f}",
                    entry["target"],
                ]
            )
    return headers, rows


def _write_json(path: Path | None, facts: dict[str, Any]) -> None:
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(facts, indent=2) + "\n")


def _size(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(_size(part) for part in text.split(",") if part)


def _names(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split(",") if part)
