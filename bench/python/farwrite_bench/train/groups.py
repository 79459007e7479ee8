"""Which ways are alive at once: as many as fit into memory."""

from __future__ import annotations

from collections.abc import Sequence

from farwrite_bench.cluster.transport import FARWRITE, GRPC, RPC_OVER_FABRIC, STAGED
from farwrite_bench.tensor.plan import LOCAL
from farwrite_bench.train.plan import DATA, ONE_PROCESS, STOCK, Case, Group, Way

SPARE_BYTES = 2 * 2**30
"""Memory that is left to everything else."""
PROCESS_BYTES = 400 * 2**20
"""Memory of a process that has loaded TensorFlow."""
COPIES = {
    GRPC.key: 4.0,
    RPC_OVER_FABRIC.key: 5.0,
    STAGED.key: 4.0,
    FARWRITE.key: 2.5,
    LOCAL.key: 1.5,
}
"""Memory of a way, in copies of the variables for each worker, beside the variables themselves."""
TCP_COPIES = 1.5
"""The same over tcp, where every receiver has its own bytes, in addition."""


def groups(cases: Sequence[Case], ways: Sequence[Way], available: int) -> tuple[Group, ...]:
    """Divide a run into groups, each with its own `STOCK` and `ONE_PROCESS`.

    Parameters
    ----------
    cases : sequence of Case
        What to measure.
    ways : sequence of Way
        How. `STOCK` may be missing.
    available : int
        Bytes of memory. A group of one way is made even if it needs more.
    """
    made: dict[tuple[int, int, tuple[Way, ...]], list[Case]] = {}
    for case in cases:
        for together in _together(case, ways, available - SPARE_BYTES):
            made.setdefault((case.servers, case.workers, together), []).append(case)
    return tuple(Group(tuple(of_group), key[2]) for key, of_group in made.items())


def _together(case: Case, ways: Sequence[Way], available: int) -> list[tuple[Way, ...]]:
    base = [way for way in (ONE_PROCESS, STOCK) if way in ways]
    others = [way for way in ways if way not in base]
    # Over one fabric after the other, so that groups are alike for all cases.
    others.sort(key=lambda way: way.fabric or "")
    found: list[list[Way]] = [[]]
    for way in others:
        if found[-1] and _bytes(case, [*base, *found[-1], way]) > available:
            found.append([])
        found[-1].append(way)
    return [(*base, *each) for each in found]


def _bytes(case: Case, ways: Sequence[Way]) -> float:
    return sum(_bytes_of(case, way) for way in ways)


def _bytes_of(case: Case, way: Way) -> float:
    copies = COPIES[way.transport.key] + (TCP_COPIES if way.fabric == "tcp" else 0.0)
    processes = 1 if way.is_local else case.workers + (case.servers if case.mode == DATA else 0)
    return PROCESS_BYTES * processes + case.network.bytes * (1 + copies * case.workers)
