"""``bench memory``: allocation, first use and copying, compared with the system's own."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from farwrite.info import copy_kernels
from farwrite.units import format_size
from farwrite_bench import _native
from farwrite_bench.harness.benchmark import Benchmark, Progress
from farwrite_bench.harness.column import Column, Table
from farwrite_bench.report.bars import Bar, Group, bars
from farwrite_bench.report.chart import Series, lines
from farwrite_bench.report.frame import Look
from farwrite_bench.report.numbers import short_size
from farwrite_bench.report.parts import Facts, Row, figure
from farwrite_bench.sizes import GIB, KIB, MIB

THREADS = 4
ALLOCATION_TARGET = 1.1
FIRST_USE_TARGET = 1.5

COLOURS = ("farwrite", "staged", "local", "rpc-over-fabric", "grpc", "box-tcp")
"""The colours of the copy kernels, in their order."""
BESIDE = {"allocations": "malloc", "allocations_tuned_malloc": "tuned malloc"}
"""What the allocations of each key are compared with."""


@dataclass(frozen=True)
class MemoryPlan:
    """What to measure, and how often."""

    rounds: int
    operations: int
    """Pairs of allocate and free per thread and round."""
    first_use_bytes: int
    copy_pool_bytes: int
    copy_sizes: tuple[int, ...]
    copy_seconds: float

    @classmethod
    def full(cls) -> MemoryPlan:
        """Make the plan of a real run."""
        sizes = tuple(4 * KIB * 4**power for power in range(9))
        return cls(5, 20000, GIB, GIB, sizes, 0.15)

    @classmethod
    def quick(cls) -> MemoryPlan:
        """Make the plan of a short run, which only shows that everything works."""
        return cls(2, 200, 32 * MIB, 32 * MIB, (4 * KIB, MIB), 0.005)


def measure(plan: MemoryPlan, progress: Progress, logs: Path) -> Facts:
    """Run all three parts. Figures are medians over the rounds; a ratio compares one round."""
    progress(0.0, "allocate and free")
    allocations = [_allocations(plan, touch) for touch in (False, True)]
    progress(0.4, "first use")
    first_use = _first_use(plan)
    progress(0.6, "copy kernels")
    return {
        "allocations": allocations,
        "first_use": first_use,
        "copies": copies(plan),
        "allocations_tuned_malloc": tuned_allocations(plan),
    }


def _allocations(plan: MemoryPlan, touch: bool) -> dict[str, Any]:
    """Compare Device.allocate with malloc at its current settings."""

    def pair_ns(use_malloc: bool) -> float:
        # Touched blocks cost a thousand times more, so fewer operations suffice.
        operations = max(plan.operations // 20, 50) if touch else plan.operations
        return _native.time_allocations(use_malloc, THREADS, operations, touch)

    plain = [(pair_ns(False), pair_ns(True)) for _ in range(plan.rounds)]
    return {
        "through": "Device.allocate (public API)",
        "threads": THREADS,
        "bytes": [64 * KIB, 16 * MIB],
        "touched": touch,
        "farwrite_ns": statistics.median(mine for mine, _ in plain),
        "malloc_ns": statistics.median(theirs for _, theirs in plain),
        "ratio": statistics.median(mine / theirs for mine, theirs in plain),
        "target": f"<={ALLOCATION_TARGET}",
    }


def tuned_allocations(plan: MemoryPlan) -> list[dict[str, Any]]:
    """Compare with malloc tuned for large blocks; malloc stays tuned in this process."""
    _native.tune_malloc()
    return [_allocations(plan, touch) for touch in (False, True)]


def _first_use(plan: MemoryPlan) -> dict[str, Any]:
    size = plan.first_use_bytes
    rounds = []
    for _ in range(plan.rounds):
        mine = _native.first_use(False, size)
        kernel = _native.first_use(True, size)
        rounds.append((mine, kernel))
    mine_s = [mine.allocate_seconds + mine.touch_seconds for mine, _ in rounds]
    kernel_s = [kernel.allocate_seconds + kernel.touch_seconds for _, kernel in rounds]
    return {
        "bytes": size,
        "farwrite_s": statistics.median(mine_s),
        "kernel_s": statistics.median(kernel_s),
        "farwrite_touch_s": statistics.median(mine.touch_seconds for mine, _ in rounds),
        "ratio": statistics.median(a / b for a, b in zip(mine_s, kernel_s, strict=True)),
        "target": f"<={FIRST_USE_TARGET}",
    }


def copies(plan: MemoryPlan) -> list[dict[str, Any]]:
    """Measure the copy kernels; returns one row for each size, with ``gb_s`` by kernel."""
    bench = _native.CopyBench(plan.copy_pool_bytes)
    kernels = [kernel for kernel in copy_kernels() if kernel["supported"]]
    rows = []
    for size in plan.copy_sizes:
        rates: dict[str, list[float]] = {str(kernel["name"]): [] for kernel in kernels}
        for _ in range(min(plan.rounds, 3)):
            for name, seen in rates.items():
                seen.append(bench.rate(name, size, plan.copy_seconds))
        rows.append(
            {
                "size": size,
                "gb_s": {name: round(statistics.median(seen), 3) for name, seen in rates.items()},
            }
        )
    return rows


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
        for key, name in BESIDE.items()
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


def _allocation_rows(facts: Facts) -> list[Row]:
    return [{**entry, "beside": name} for key, name in BESIDE.items() for entry in facts[key]]


def _case(row: Row) -> str:
    touched = "touched" if row["touched"] else "not touched"
    return f"64 KiB to 16 MiB, {touched}, compared with {row['beside']}"


def _rates(row: Row) -> str:
    return ", ".join(f"{name} {rate:.2f}" for name, rate in row["gb_s"].items())


COPIES = Table(
    (Column("copy of", "size", format_size), Column("GB/s by kernel", _rates)),
    "Copies in one thread",
    lambda facts: facts["copies"],
)
BENCHMARK = Benchmark(
    name="memory",
    description="Compare allocation with malloc, the first use of memory with the kernel's own"
    " prefault, and the copy kernels with each other. The throughput of one thread falls once the"
    " bytes leave the caches.",
    title="Memory: allocation and copies",
    options=(),
    plan=lambda arguments, _: MemoryPlan.quick() if arguments.quick else MemoryPlan.full(),
    measure=measure,
    summary=lambda plan: f"{plan.rounds} rounds",
    settings=lambda plan: {"rounds": plan.rounds},
    notes=lambda _: (),
    tables=(
        Table(
            (
                Column("allocate + free, 4 threads", _case),
                Column("Farwrite ns", "farwrite_ns", ".0f"),
                Column("malloc ns", "malloc_ns", ".0f"),
                Column("ratio", "ratio", ".2f"),
                Column("target", "target"),
            ),
            "Allocation",
            _allocation_rows,
        ),
        Table(
            (
                Column("first use of", "bytes", format_size),
                Column("Farwrite s", "farwrite_s", ".3f"),
                Column("kernel s", "kernel_s", ".3f"),
                Column("ratio", "ratio", ".2f"),
                Column("target", "target"),
            ),
            "First use",
            lambda facts: [facts["first_use"]],
        ),
        COPIES,
    ),
    charts=(figures,),
)
