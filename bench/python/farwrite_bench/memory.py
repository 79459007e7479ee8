"""``bench memory``: allocation, first use and copying, compared with the system's own."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from farwrite.info import copy_kernels
from farwrite_bench import _native
from farwrite_bench.plan import GIB, KIB, MIB

THREADS = 4
ALLOCATION_TARGET = 1.1
FIRST_USE_TARGET = 1.5

Progress = Callable[[float, str], None]


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


def run(plan: MemoryPlan, progress: Progress) -> dict[str, Any]:
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
