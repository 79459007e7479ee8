"""The publish test: from the start of a publish until each of several readers has the version."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from pathlib import Path

from farwrite_bench.box.plan import BOX_SHM, BOX_TCP, PUBLISH, BoxPlan
from farwrite_bench.box.process import START_SECONDS, Call, ask, opened, processes
from farwrite_bench.box.publishers import (
    BUFFERS,
    box_publisher,
    box_reader,
    file_publisher,
    file_reader,
    has_torch,
    shared_publisher,
    shared_reader,
)
from farwrite_bench.box.rows import compared, row
from farwrite_bench.cluster.process import Task
from farwrite_bench.harness.benchmark import Progress
from farwrite_bench.report.parts import Row

READERS = 8
TARGET = 1.15
"""The most times that a version may take of one streaming copy."""
SHARE = READERS + 4.0
"""Models in memory: one in each reader that copies, and those of the publisher."""
FILE = "torch-file" if has_torch() else "numpy-file"
SHARED = "shared-memory"
SLOW = (BOX_TCP, FILE)
"""Ways by which each reader copies: a version takes seconds, so that one of them is enough."""
WAYS = {FILE: (file_publisher, file_reader), SHARED: (shared_publisher, shared_reader)}
"""The ways besides the box."""
COPIES = {BOX_SHM: (1, 0), BOX_TCP: (1, 1), FILE: (1, 1), SHARED: (1, 0)}
"""Copies of the bytes by the publisher and by each reader."""


def run(plan: BoxPlan, progress: Progress, logs: Path) -> list[Row]:
    """Measure the box beside a file and plain shared memory, which take turns."""
    size = plan.segment_bytes(SHARE)
    if not plan.boxes:
        return []
    ways = [*plan.boxes, FILE, SHARED]
    taken: dict[str, list[float]] = {way: [] for way in ways}
    copied: dict[str, list[float]] = {way: [] for way in ways}
    with processes(READERS, logs) as readers, processes(1, logs, "server") as publisher:
        for number in range(plan.rounds):
            for place, way in enumerate(ways if number % 2 == 0 else reversed(ways)):
                progress((number + place / len(ways)) / plan.rounds, f"publish over {way}")
                seconds, copies = turn(publisher, readers, way, size)
                taken[way].append(seconds)
                copied[way].append(copies)
    return [_row(way, size, taken[way], copied[way]) for way in ways]


def turn(
    publisher: Sequence[Task], readers: Sequence[Task], way: str, size: int
) -> tuple[float, float]:
    """Publish versions of `size` bytes by one way, with one of its `readers` for each process.

    Returns
    -------
    tuple of float
        The median seconds until all readers see a version, and those of one streaming copy.
    """
    publish, subscribe = WAYS.get(way, (box_publisher, box_reader))
    visible, copies = [], []
    warm_up, measured = (1, 1) if way in SLOW else (BUFFERS, 3)  # each buffer is used once before
    with (
        opened(publisher, way, publish, size) as place,
        opened(readers, way, subscribe, place, way.removeprefix("box-")),
    ):
        for version in range(warm_up + measured):
            run = Call(way, "run", (time.perf_counter() + START_SECONDS,))
            (began, copied), *seen = ask([*publisher, *readers], run)
            if version >= warm_up:
                visible.append(max(seen) - began)
                copies.append(copied)
    return statistics.median(visible), statistics.median(copies)


def _row(way: str, size: int, taken: list[float], copied: list[float]) -> Row:
    by_publisher, by_reader = COPIES[way]
    return row(
        PUBLISH,
        way,
        workers=READERS,
        bytes=size,
        visible_ms=round(statistics.median(taken) * 1e3, 3),
        gb_s=round(size / statistics.median(taken) / 1e9, 3),
        limit_gb_s=round(size / statistics.median(copied) / 1e9, 3),
        **compared(taken, copied, TARGET if way == BOX_SHM else None, most=True),
        copies_publisher=by_publisher,
        copies_reader=by_reader,
    )
