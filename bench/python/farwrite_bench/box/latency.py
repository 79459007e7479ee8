"""The latency test: one small read at a time, timed in C++."""

from __future__ import annotations

import socket
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from farwrite_bench import _native
from farwrite_bench.box.plan import BOX_SHM, LATENCY, BoxPlan
from farwrite_bench.box.process import served_box, served_socket, serving
from farwrite_bench.box.rows import compared, row
from farwrite_bench.failure import attempt
from farwrite_bench.harness.benchmark import Progress
from farwrite_bench.report.parts import Row
from farwrite_bench.sizes import KIB, MIB

READ_BYTES = KIB
READS, QUICK_READS = 20000, 500
TARGET_US = 2.0
TARGET_RATIO = 1.3
"""What a read over TCP may take, as a multiple of a plain socket's round trip."""
REQUEST_BYTES = 48
"""What the plain socket asks with."""
SERVER_BYTES = 64 * MIB


def run(plan: BoxPlan, progress: Progress, logs: Path) -> list[Row]:
    """Measure each transport of the box."""
    rows: list[Row] = []
    for transport in plan.boxes:
        progress(0.0, f"1 KiB reads over {transport}")
        measure = _polled if transport == BOX_SHM else _beside_a_socket
        rows.append(
            row(
                LATENCY,
                transport,
                bytes=READ_BYTES,
                **attempt(measure, plan, transport.removeprefix("box-"), logs),
            )
        )
    return rows


def _polled(plan: BoxPlan, fabric: str, logs: Path) -> Row:
    reads = QUICK_READS if plan.quick else READS
    with serving(logs, served_box, SERVER_BYTES) as box:
        times = [
            _native.time_box_reads(box, fabric, READ_BYTES, reads, polls=True)
            for _ in range(plan.rounds)
        ]
    figures = _figures(times)
    return {
        **figures,
        "target": f"<={TARGET_US:g} us",
        "target_met": figures["p50_us"] <= TARGET_US,
    }


def _beside_a_socket(plan: BoxPlan, fabric: str, logs: Path) -> Row:
    """Both ends block, and so do those of the plain socket, whose turns alternate with ours."""
    reads = QUICK_READS if plan.quick else READS
    times: list[list[float]] = []
    plain: list[list[float]] = []
    with serving(logs, served_box, SERVER_BYTES) as box, _plain_socket(logs) as peer:

        def ours() -> None:
            times.append(_native.time_box_reads(box, fabric, READ_BYTES, reads, polls=False))

        def limit() -> None:
            plain.append(_native.time_requests(peer.fileno(), REQUEST_BYTES, READ_BYTES, reads))

        for number in range(plan.rounds):
            for turn in (ours, limit) if number % 2 == 0 else (limit, ours):
                turn()
    medians = [statistics.median(each) for each in times]
    limits = [statistics.median(each) for each in plain]
    return {
        **_figures(times),
        "limit_us": round(statistics.median(limits), 3),
        **compared(medians, limits, TARGET_RATIO, most=True),
    }


@contextmanager
def _plain_socket(logs: Path) -> Iterator[socket.socket]:
    """Yield a connection to a process that answers requests."""
    with (
        serving(logs, served_socket, REQUEST_BYTES, READ_BYTES) as port,
        socket.create_connection(("127.0.0.1", int(port))) as peer,
    ):
        yield peer


def _figures(times: Sequence[Sequence[float]]) -> Row:
    tails = [statistics.quantiles(each, n=100)[98] for each in times]
    return {
        "p50_us": round(statistics.median(statistics.median(each) for each in times), 3),
        "p99_us": round(statistics.median(tails), 3),
    }
