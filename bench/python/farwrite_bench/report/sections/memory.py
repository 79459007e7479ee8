"""Allocation, first use, and the throughput of copies."""

from __future__ import annotations

from collections.abc import Sequence

from farwrite.units import format_size
from farwrite_bench.memory_command import allocation_table
from farwrite_bench.report.axis import short_size
from farwrite_bench.report.bars import Bar, Group, bars
from farwrite_bench.report.chart import Series, lines
from farwrite_bench.report.frame import Look
from farwrite_bench.report.parts import Card, Facts, Gain, Row, Table, figure

TITLE = "Memory: allocation and copies"
LEAD = "Why copies cost: the throughput of one thread falls once the bytes leave the caches."
COLOURS = ("farwrite", "staged", "local", "rpc-over-fabric", "grpc", "box-tcp")
"""The colours of the copy kernels, in their order."""


def figures(facts: Facts) -> list[str]:
    """Draw the throughput of copies, then allocation beside malloc."""
    groups = [
        Group(
            f"{'touched' if entry['touched'] else 'not touched'}, beside {name}",
            [
                _time("farwrite", "Device.allocate", entry["farwrite_ns"]),
                _time("limit", "malloc", entry["malloc_ns"]),
            ],
        )
        for key, name in (("allocations", "malloc"), ("allocations_tuned_malloc", "tuned malloc"))
        for entry in facts[key]
    ]
    first = facts["first_use"]
    use = [
        Bar("farwrite", "Farwrite", first["farwrite_s"], f"{figure(first['farwrite_s'])} s"),
        Bar("limit", "the kernel", first["kernel_s"], f"{figure(first['kernel_s'])} s"),
    ]
    return [
        copy_chart(facts["copies"]),
        bars("Allocate and free, 4 threads", groups),
        bars("First use of fresh memory", [Group(format_size(first["bytes"]), use)]),
    ]


def _time(key: str, name: str, nanoseconds: float) -> Bar:
    return Bar(key, name, nanoseconds, f"{figure(nanoseconds)} ns")


def copy_chart(copies: Sequence[Row]) -> str:
    """Draw the throughput of each copy kernel by size."""
    look = Look(
        "Throughput of copies in one thread",
        "bytes of a copy",
        "GB/s",
        log_x=True,
        write_x=short_size,
        ticks_x=[row["size"] for row in copies],
    )
    kernels = list(copies[0]["gb_s"])
    return lines(
        look,
        [
            Series(
                COLOURS[place % len(COLOURS)],
                name,
                [(row["size"], row["gb_s"][name]) for row in copies],
            )
            for place, name in enumerate(kernels)
        ],
    )


def copy_table(copies: Sequence[Row]) -> Table:
    """Show the throughput of each copy kernel by size."""
    kernels = list(copies[0]["gb_s"])
    rows = [
        [format_size(row["size"]), *(f"{row['gb_s'][name]:.2f}" for name in kernels)]
        for row in copies
    ]
    return "Copies in one thread, GB/s", ["copy of", *kernels], rows


def tables(facts: Facts) -> list[Table]:
    """Show all figures."""
    first = facts["first_use"]
    used = [
        format_size(first["bytes"]),
        f"{first['farwrite_s']:.3f}",
        f"{first['kernel_s']:.3f}",
        f"{first['ratio']:.2f}",
        first["target"],
    ]
    return [
        ("Allocation", *allocation_table(facts)),
        ("First use", ["first use of", "Farwrite s", "kernel s", "ratio", "target"], [used]),
        copy_table(facts["copies"]),
    ]


def cards(_: Facts) -> list[Card]:
    """Return none: memory has no key figure."""
    return []


def gains(_: Facts) -> list[Gain]:
    """Return none: allocation should be no slower than malloc, which is no gain."""
    return []
