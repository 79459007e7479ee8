"""The accumulate test: the server's arithmetic, against a plain loop of as many threads."""

from __future__ import annotations

import contextlib
import statistics
import time
from pathlib import Path

from farwrite.errors import Internal
from farwrite_bench.box.emulator import DELTA
from farwrite_bench.box.group import box_tasks, serving
from farwrite_bench.box.orders import Check, Checked, Close, Open, Ran, Start
from farwrite_bench.box.plan import ACCUMULATE, BOX_SHM, BOXES, BoxPlan
from farwrite_bench.box.rows import compared, row
from farwrite_bench.cluster.group import in_turn
from farwrite_bench.cluster.process import Task
from farwrite_bench.harness.benchmark import Progress
from farwrite_bench.report.parts import Row

TARGETS = {"float32": 0.9, "bfloat16": 0.8}
"""The least share of the plain float32 loop, by bytes."""
SHARE = 8.0
"""Segments in memory: two of the loop, and of the box delta, buffers, and those on their way."""
MOST_BYTES = 256 * 10**6
STEPS = 16
"""Additions of one turn. Sums of so many deltas are exact in bfloat16."""
START_SECONDS = 0.05
LOOP = "raw add"


def run(plan: BoxPlan, progress: Progress, logs: Path) -> list[Row]:
    """Measure each type over each transport of the box."""
    rows: list[Row] = []
    size = min(plan.segment_bytes(SHARE), MOST_BYTES)
    with box_tasks(1, logs) as (task,):
        for transport in [each for each in plan.transports if each in BOXES]:
            for dtype, target in TARGETS.items():
                progress(0.0, f"accumulate {dtype} over {transport}")
                rates: dict[str, list[float]] = {f"{transport} {dtype}": [], LOOP: []}
                for _, way in in_turn(list(rates), plan.rounds):
                    rates[way].append(_turn(task, way, size, logs))
                ours, limit = rates.values()
                rows.append(
                    row(
                        ACCUMULATE,
                        transport,
                        dtype=dtype,
                        bytes=size,
                        gb_s=round(statistics.median(ours) / 1e9, 3),
                        limit_gb_s=round(statistics.median(limit) / 1e9, 3),
                        **compared(ours, limit, target if transport == BOX_SHM else None),
                    )
                )
    return rows


def _turn(task: Task, way: str, size: int, logs: Path) -> float:
    """Return the bytes of deltas that are added per second."""
    with contextlib.ExitStack() as stack:
        place = ""
        if way != LOOP:
            place = stack.enter_context(serving("box", int(SHARE * size), 1, logs))
        task.ask(Open(way, size, place))
        ran = task.ask(Start(way, time.perf_counter() + START_SECONDS, STEPS))
        checked = task.ask(Check(way))
        task.ask(Close(way))
    if not isinstance(ran, Ran) or not isinstance(checked, Checked):
        raise Internal(f"bench box: unexpected answers in a turn of {way}; report this")
    expected = DELTA * (STEPS + 1)
    if (checked.low, checked.high) != (expected, expected):
        raise Internal(
            f"bench box: sums over {way} are {checked.low} to {checked.high} instead of {expected};"
            " report this"
        )
    return size * STEPS / (ran.ended - ran.began)
