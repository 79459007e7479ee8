"""The latency test: one small read at a time, polled, timed in C++."""

from __future__ import annotations

import statistics
from pathlib import Path

from farwrite_bench import _native
from farwrite_bench.box.plan import BOX_SHM, LATENCY, BoxPlan
from farwrite_bench.box.process import served_box, serving
from farwrite_bench.box.rows import row
from farwrite_bench.failure import attempt
from farwrite_bench.harness.benchmark import Progress
from farwrite_bench.report.parts import Row
from farwrite_bench.sizes import KIB, MIB

READ_BYTES = KIB
READS, QUICK_READS = 20000, 500
TARGET_US = 2.0
SERVER_BYTES = 64 * MIB


def run(plan: BoxPlan, progress: Progress, logs: Path) -> list[Row]:
    """Measure each transport of the box."""
    rows: list[Row] = []
    for transport in plan.boxes:
        progress(0.0, f"1 KiB reads over {transport}")
        figures = attempt(_measure, plan, transport, logs)
        rows.append(row(LATENCY, transport, bytes=READ_BYTES, **figures))
    return rows


def _measure(plan: BoxPlan, transport: str, logs: Path) -> Row:
    reads = QUICK_READS if plan.quick else READS
    medians, tails = [], []
    with serving(logs, served_box, SERVER_BYTES) as endpoint:
        for _ in range(plan.rounds):
            fabric = transport.removeprefix("box-")
            times = _native.time_box_reads(endpoint, fabric, READ_BYTES, reads)
            medians.append(statistics.median(times))
            tails.append(statistics.quantiles(times, n=100)[98])
    p50 = statistics.median(medians)
    aimed = transport == BOX_SHM
    return {
        "p50_us": round(p50, 3),
        "p99_us": round(statistics.median(tails), 3),
        "target": f"<={TARGET_US:g} us" if aimed else None,
        "target_met": p50 <= TARGET_US if aimed else None,
    }
