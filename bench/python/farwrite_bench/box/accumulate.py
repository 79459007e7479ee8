"""The accumulate test: the server's arithmetic, against a plain loop of as many threads."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

from farwrite import box
from farwrite.errors import Internal
from farwrite_bench._native import add_in_place
from farwrite_bench.box.pages import filled
from farwrite_bench.box.plan import ACCUMULATE, BOX_SHM, BoxPlan
from farwrite_bench.box.process import (
    START_SECONDS,
    Call,
    Turn,
    ask,
    opened,
    processes,
    repeated,
    served_box,
    serving,
)
from farwrite_bench.box.rows import rated, row
from farwrite_bench.box.worker import DELTA
from farwrite_bench.cluster.group import in_turn
from farwrite_bench.cluster.process import Task
from farwrite_bench.failure import attempt
from farwrite_bench.harness.benchmark import Progress
from farwrite_bench.report.parts import Row

TARGETS = {"float32": 0.9, "bfloat16": 0.8}
"""The least share of the plain float32 loop, by bytes."""
SHARE = 8.0
"""Segments in memory: two of the loop, and of the box delta, buffers, and those on their way."""
MOST_BYTES = 256 * 10**6
STEPS = 16
"""Additions of one turn. Sums of so many deltas are exact in bfloat16."""
LOOP = "raw add"
UNDER_WAY = 4
"""Changes that the client has posted and the server has not applied."""


def run(plan: BoxPlan, progress: Progress, logs: Path) -> list[Row]:
    """Measure each type over each transport of the box."""
    rows: list[Row] = []
    size = min(plan.segment_bytes(SHARE), MOST_BYTES)
    for transport, dtype in itertools.product(plan.boxes, TARGETS):
        progress(0.0, f"accumulate {dtype} over {transport}")
        figures = attempt(_measure, plan, transport, dtype, size, logs)
        rows.append(row(ACCUMULATE, transport, dtype=dtype, bytes=size, **figures))
    return rows


def _measure(plan: BoxPlan, transport: str, dtype: str, size: int, logs: Path) -> Row:
    rates: dict[str, list[float]] = {f"{transport} {dtype}": [], LOOP: []}
    with processes(1, logs) as tasks:
        for _, way in in_turn(list(rates), plan.rounds):
            rates[way].append(_turn(tasks, way, size, logs))
    return rated(rates, TARGETS[dtype] if transport == BOX_SHM else None)


def _turn(tasks: Sequence[Task], way: str, size: int, logs: Path) -> float:
    """Return the bytes of deltas that are added per second."""
    with contextlib.ExitStack() as stack:
        if way == LOOP:
            stack.enter_context(opened(tasks, way, raw_add, size))
        else:
            transport, dtype = way.split()
            place = stack.enter_context(serving(logs, served_box, int(SHARE * size)))
            fabric = transport.removeprefix("box-")
            stack.enter_context(opened(tasks, way, box_add, place, size, fabric, dtype))
        run = Call(way, "run", (time.perf_counter() + START_SECONDS, STEPS))
        ((began, ended),) = ask(tasks, run)
        (ends,) = ask(tasks, Call(way, "ends"))
    expected = DELTA * (STEPS + 1)
    if ends != (expected, expected):
        raise Internal(
            f"bench box: sums over {way} are {ends[0]} to {ends[1]} instead of {expected};"
            " report this"
        )
    seconds: float = ended - began
    return size * STEPS / seconds


@contextlib.contextmanager
def box_add(place: str, size: int, fabric: str, dtype: str) -> Iterator[Turn]:
    """Post accumulates of a whole segment, some of them at a time."""
    elements = size // (2 if dtype == "bfloat16" else 4)
    with box.connect(place, fabrics=[fabric]) as client:
        total = client.create("sum", (elements,), dtype)
        delta = client.array((elements,), total.dtype).array
        delta.fill(DELTA)
        total.accumulate(delta)
        under_way: deque[box.Update] = deque()

        def post() -> None:
            if len(under_way) == UNDER_WAY:
                under_way.popleft().wait()
            under_way.append(total.post.accumulate(delta))

        def finish() -> None:
            while under_way:
                under_way.popleft().wait()

        yield Turn(repeated(post, finish), total.read)


@contextlib.contextmanager
def raw_add(size: int) -> Iterator[Turn]:
    """Run `destination += source` in this process, with one thread for each processor."""
    total, delta = filled(size, 0), filled(size, DELTA)
    threads = os.cpu_count() or 1
    add_in_place(total, delta, threads)
    yield Turn(repeated(lambda: add_in_place(total, delta, threads)), lambda: total)
