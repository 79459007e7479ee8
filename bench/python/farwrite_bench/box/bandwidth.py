"""The bandwidth test: half of the processes read whole segments, half write them.

The limit is measured in the same rounds: a raw loop with as many processes, the same mix of reads
and writes, and the same bytes.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from farwrite.errors import Internal
from farwrite_bench.box.group import TURN_SECONDS, box_tasks, serving
from farwrite_bench.box.orders import Close, Open, Ran, Start
from farwrite_bench.box.plan import BANDWIDTH, BOX_SHM, BOX_TCP, BoxPlan
from farwrite_bench.box.rows import compared, row
from farwrite_bench.box.stream import READ, WRITE
from farwrite_bench.cluster.group import in_turn
from farwrite_bench.cluster.process import Task
from farwrite_bench.harness.benchmark import Progress
from farwrite_bench.report.parts import Row

TARGET = 0.9
RAW = {BOX_SHM: "raw-shm", BOX_TCP: "raw-tcp"}
"""The limit of each transport."""
BOX_SHARE = 3.0
"""Segments in memory for each process over the box: its own, and at the server one or two buffers
and, over TCP, the bytes that are on their way."""
RAW_SHARE = 2.0
"""The same in the raw loop, whose memory is held beside the box's from round to round."""
INTERPRETER_BYTES = 80 * 10**6
ROUND_BYTES = 6 * 10**9
"""About as much is moved in one turn, by all processes together."""
START_SECONDS = 0.1


def run(plan: BoxPlan, progress: Progress, logs: Path) -> list[Row]:
    """Measure each transport of the box with each number of processes."""
    rows: list[Row] = []
    transports = [each for each in plan.transports if each in RAW]
    for place, number in enumerate(plan.processes):
        size = segment_bytes(plan, number)
        passes = 1 if plan.quick else max(ROUND_BYTES // (number * size), 1)
        with box_tasks(number, logs) as tasks:
            for transport in transports:
                progress(place / len(plan.processes), f"{number} processes over {transport}")
                rates = _rates(plan, tasks, transport, size, passes, logs)
                rows.append(_row(transport, number, size, passes, rates))
    return rows


def segment_bytes(plan: BoxPlan, number: int) -> int:
    """Return the size of a segment that the memory allows for `number` processes."""
    free = replace(plan, available=plan.available - number * INTERPRETER_BYTES)
    return free.segment_bytes((BOX_SHARE + RAW_SHARE) * number + 1)


def _rates(
    plan: BoxPlan, tasks: Sequence[Task], transport: str, size: int, passes: int, logs: Path
) -> dict[str, list[float]]:
    """Return the bytes per second of all processes together, of the transport and of its limit."""
    rates: dict[str, list[float]] = {transport: [], RAW[transport]: []}
    with contextlib.ExitStack() as stack:
        for way in rates:
            stack.enter_context(_opened(tasks, way, size, logs))
        for _, way in in_turn(list(rates), plan.rounds):
            rates[way].append(_turn(tasks, way, size, passes))
    return rates


@contextlib.contextmanager
def _opened(tasks: Sequence[Task], way: str, size: int, logs: Path) -> Iterator[None]:
    with _place(way, size, len(tasks), logs) as place:
        for number, task in enumerate(tasks):
            task.send(Open(_half(way, number), size, place, number))
        for task in tasks:
            task.receive()
        yield
        for number, task in enumerate(tasks):
            task.ask(Close(_half(way, number)))


def _half(way: str, number: int) -> str:
    """Return what the process of this number does: every other one writes."""
    return f"{way} {READ if number % 2 == 0 else WRITE}"


def _turn(tasks: Sequence[Task], way: str, size: int, passes: int) -> float:
    moment = time.perf_counter() + START_SECONDS
    for number, task in enumerate(tasks):
        task.send(Start(_half(way, number), moment, passes))
    answers = [task.receive(TURN_SECONDS) for task in tasks]
    ran = [answer for answer in answers if isinstance(answer, Ran)]
    if len(ran) != len(tasks):
        raise Internal(f"bench box: unexpected answers in a turn over {way}; report this")
    seconds = max(each.ended for each in ran) - min(each.began for each in ran)
    return len(tasks) * size * passes / seconds


@contextlib.contextmanager
def _place(way: str, size: int, number: int, logs: Path) -> Iterator[str]:
    """Start the other side; yields where the processes find it."""
    if way in RAW:
        memory = int(BOX_SHARE * number * size) + size
        with serving("box", memory, number, logs) as endpoint:
            yield endpoint
    elif way == "raw-tcp":
        with serving("raw-tcp", size, number, logs) as endpoint:
            yield endpoint
    else:
        shared = os.memfd_create("farwrite-bench", os.MFD_CLOEXEC)
        try:
            os.truncate(shared, number * size)
            yield f"/proc/{os.getpid()}/fd/{shared}"
        finally:
            os.close(shared)


def _row(transport: str, number: int, size: int, passes: int, rates: dict[str, list[float]]) -> Row:
    ours, limit = rates[transport], rates[RAW[transport]]
    return row(
        BANDWIDTH,
        transport,
        workers=number,
        bytes=size,
        passes=passes,
        gb_s=round(statistics.median(ours) / 1e9, 3),
        limit_gb_s=round(statistics.median(limit) / 1e9, 3),
        **compared(ours, limit, TARGET),
    )
