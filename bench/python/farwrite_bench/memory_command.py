"""The subcommand ``farwrite bench memory``: its options, its tables and its JSON file."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from farwrite.units import format_size
from farwrite_bench import memory
from farwrite_bench.figures import write_json
from farwrite_bench.options import add_shared
from farwrite_bench.record import Record
from farwrite_bench.table import ProgressBar, markdown_table, text_table

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[Any]


def add_parser(kinds: Subparsers) -> None:
    """Add the subcommand ``memory``."""
    parser = kinds.add_parser(
        "memory",
        help="measure allocation, first use and copy kernels",
        description="Compare allocation with malloc, the first use of memory with the kernel's own"
        " prefault, and the copy kernels with each other.",
        epilog="Example: farwrite bench memory --quick",
    )
    add_shared(parser, "--quick", "--json", "--markdown")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measure, print the results and write the JSON file."""
    record = Record("memory", quick=arguments.quick)
    record.announce()
    plan = memory.MemoryPlan.quick() if arguments.quick else memory.MemoryPlan.full()
    bar = ProgressBar()
    try:
        facts = memory.run(plan, bar)
        facts["allocations_tuned_malloc"] = memory.tuned_allocations(plan)
    finally:
        bar.clear()
    table = markdown_table if arguments.markdown else text_table
    print("\n".join(table(*allocation_table(facts))))
    first = facts["first_use"]
    size = format_size(first["bytes"])
    print(
        f"\nfirst use of {size}: Farwrite {first['farwrite_s']:.3f} s, the kernel's own prefault"
        f" {first['kernel_s']:.3f} s, ratio {first['ratio']:.2f} (target {first['target']})\n"
    )
    kernels = list(facts["copies"][0]["gb_s"])
    rows = [
        [format_size(row["size"]), *(f"{row['gb_s'][name]:.2f}" for name in kernels)]
        for row in facts["copies"]
    ]
    print("\n".join(table(["copy, GB/s", *kernels], rows)))
    write_json(arguments.json, record.facts(**facts))
    return 0


def allocation_table(facts: dict[str, Any]) -> tuple[Sequence[str], list[list[str]]]:
    """Make the headers and the cells of the table of allocations."""
    headers = ["allocate + free, 4 threads", "Farwrite ns", "malloc ns", "ratio", "target"]
    rows = []
    for key, name in (("allocations", "malloc"), ("allocations_tuned_malloc", "tuned malloc")):
        for entry in facts[key]:
            touched = "touched" if entry["touched"] else "not touched"
            rows.append(
                [
                    f"64 KiB to 16 MiB, {touched}, compared with {name}",
                    f"{entry['farwrite_ns']:.0f}",
                    f"{entry['malloc_ns']:.0f}",
                    f"{entry['ratio']:.2f}",
                    entry["target"],
                ]
            )
    return headers, rows
