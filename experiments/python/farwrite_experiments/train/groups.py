"""Which ways are alive at once: as many as fit into memory."""

from __future__ import annotations

from collections.abc import Sequence

from farwrite_bench.cluster.transport import FARWRITE, GRPC, STAGED
from farwrite_bench.tensor.plan import LOCAL
from farwrite_experiments.rpc_over_fabric import RPC_OVER_FABRIC
from farwrite_experiments.train.pace import FIRST_STEPS, Pace
from farwrite_experiments.train.plan import (
    MIRRORED,
    ONE_PROCESS,
    STOCK,
    Case,
    Group,
    TrainPlan,
    Way,
)

SPARE_BYTES = 2 * 2**30
"""Memory that is left to everything else."""
PROCESS_BYTES = 400 * 2**20
"""Memory of a process that has loaded TensorFlow."""
COPIES = {
    GRPC.key: 5.5,
    RPC_OVER_FABRIC.key: 5.5,
    STAGED.key: 6.5,
    FARWRITE.key: 4.0,
    LOCAL.key: 1.5,
}
"""Memory of a way, in copies of the variables for each worker, beside the variables themselves."""
TCP_COPIES = 3.5
"""The same over tcp, where every receiver has its own bytes, in addition."""
IMPORT_SECONDS, START_SECONDS, OPEN_SECONDS = 5.0, 0.7, 2.0
"""About how long it takes to import TensorFlow once, to start a process behind that, and to build
the graph of a case over one way."""
NS_PER_BYTE = {
    GRPC.key: 0.75,
    RPC_OVER_FABRIC.key: 0.6,
    STAGED.key: 0.3,
    FARWRITE.key: 0.2,
    LOCAL.key: 0.2,
}
"""Time of a step for each byte of the variables and each worker, beside the computation."""
REAL_GFLOPS = 60.0
"""Billions of multiplications a second of a real computation, on two cores."""


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
    return tuple(
        Group(case, together)
        for case in cases
        for together in _together(case, ways, available - SPARE_BYTES)
    )


def _together(case: Case, ways: Sequence[Way], available: int) -> list[tuple[Way, ...]]:
    base = [way for way in (ONE_PROCESS, STOCK) if way in ways]
    others = [way for way in ways if way not in base and _runs(case, way)]
    found: list[list[Way]] = [[]]
    for way in others:
        if found[-1] and _bytes(case, [*base, *found[-1], way]) > available:
            found.append([])
        found[-1].append(way)
    return [(*base, *each) for each in found]


def _runs(case: Case, way: Way) -> bool:
    """Whether the way carries what the case sends: rpc-over-fabric has no collectives."""
    return case.mode != MIRRORED or way.transport.key != RPC_OVER_FABRIC.key


def _bytes(case: Case, ways: Sequence[Way]) -> float:
    return sum(memory_of(case, way) for way in ways)


def memory_of(case: Case, way: Way) -> float:
    """Estimate the bytes of memory that the processes of a way take."""
    copies = COPIES[way.transport.key] + (TCP_COPIES if way.fabric == "tcp" else 0.0)
    return PROCESS_BYTES * _processes(case, way) + case.network.bytes * (1 + copies * case.workers)


def expected_seconds(plan: TrainPlan) -> float:
    """Estimate the time of a run on two processors."""
    return IMPORT_SECONDS + sum(_group_seconds(plan.pace, group) for group in plan.groups)


def _group_seconds(pace: Pace, group: Group) -> float:
    step = sum(_step_seconds(group.case, way) for way in group.ways)
    starting = sum(START_SECONDS * _processes(group.case, way) + OPEN_SECONDS for way in group.ways)
    steps = pace.steps_of(step / len(group.ways), sync=group.case.sync)
    rounds = pace.rounds_seconds(steps, step)
    return starting + FIRST_STEPS * step + max(pace.case_seconds, rounds)


def _step_seconds(case: Case, way: Way) -> float:
    slower = 3.0 if way.fabric == "tcp" else 1.0
    moving = 1e-9 * NS_PER_BYTE[way.transport.key] * case.network.bytes * case.workers * slower
    if case.compute_ms is not None:
        return max(moving, 0.6 * moving + case.compute_ms / 1e3)
    operations = 3 * case.samples * sum(layer.operations for layer in case.network.layers)
    return moving + operations / (1e9 * REAL_GFLOPS)


def _processes(case: Case, way: Way) -> int:
    layout = case.layout
    return 1 if way.is_local and not layout.mirrored else layout.servers + layout.workers
