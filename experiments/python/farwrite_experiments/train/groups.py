"""What a run measures: its cases, and which ways are alive at once, as many as fit into memory."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from farwrite.errors import InvalidArgument
from farwrite_bench.cluster.transport import FARWRITE, GRPC, STAGED
from farwrite_bench.tensor.plan import LOCAL
from farwrite_experiments.networks.network import MNIST_MLP, SIX
from farwrite_experiments.rpc_over_fabric import RPC_OVER_FABRIC
from farwrite_experiments.train.pace import FIRST_STEPS, Pace
from farwrite_experiments.train.plan import (
    EMULATED,
    MIRRORED,
    MODEL,
    ONE_PROCESS,
    REAL,
    STOCK,
    Case,
    Group,
    TrainPlan,
    Way,
)

MNIST_BATCH = 100
SPARE_BYTES = 2 * 2**30
"""Memory that is left to everything else."""
PROCESS_BYTES = 400 * 2**20
"""Memory of a process that has loaded TensorFlow."""
COSTS = {
    GRPC.key: (5.5, 0.75),
    RPC_OVER_FABRIC.key: (5.5, 0.6),
    STAGED.key: (6.5, 0.3),
    FARWRITE.key: (4.0, 0.2),
    LOCAL.key: (1.5, 0.2),
}
"""Of a way, for each worker: its memory in copies of the variables, beside the variables
themselves; nanoseconds of a step for each byte of the variables, beside the computation."""
TCP_COPIES, TCP_SLOWER = 3.5, 3.0
"""The copies that are added over tcp, where every receiver has its own bytes, and the factor of the
time of a step."""
IMPORT_SECONDS, START_SECONDS, OPEN_SECONDS = 5.0, 0.7, 2.0
"""About how long it takes to import TensorFlow once, to start a process behind that, and to build
the graph of a case over one way."""
REAL_GFLOPS = 60.0
"""Billions of multiplications a second of a real computation, on two cores."""


def cases(arguments: argparse.Namespace, pace: Pace) -> list[Case]:
    """Return the cases of the command line.

    Raises
    ------
    InvalidArgument
        If the options exclude each other.
    """
    made = []
    for model in arguments.model or [network.key for network in SIX]:
        is_mnist = model == MNIST_MLP.key
        compute = arguments.compute or (REAL if is_mnist else EMULATED)
        if is_mnist and compute == EMULATED:
            raise InvalidArgument(
                "bench train: the paper gives no computation time for mnist_mlp, so it cannot be"
                " emulated; leave --compute out"
            )
        made += [
            Case(
                model,
                compute,
                batch,
                servers=arguments.servers,
                workers=workers,
                sync=not (arguments.asynchronous or is_mnist),
                mode=arguments.mode,
            )
            for workers in arguments.workers
            for batch in arguments.batch or ((MNIST_BATCH,) if is_mnist else pace.batches)
        ]
    for case in made:
        _check(case, arguments.transport or ())
    return made


def _check(case: Case, transports: Sequence[str]) -> None:
    if case.mode == MODEL and (case.workers != 2 or not case.sync):
        raise InvalidArgument(
            "bench train: --mode model splits a model over two workers that step together; leave"
            " --workers and --asynchronous out"
        )
    if case.mode == MIRRORED and RPC_OVER_FABRIC.key in transports:
        raise InvalidArgument(
            "bench train: rpc-over-fabric carries no collectives, so not --mode mirrored; leave"
            " --transport rpc-over-fabric out"
        )
    if case.mode == MIRRORED and (case.workers < 2 or not case.sync):
        raise InvalidArgument(
            "bench train: --mode mirrored needs at least two workers that step together; give"
            " --workers 2 or more, and leave --asynchronous out"
        )


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
    base = [way for way in (ONE_PROCESS, STOCK) if way in ways]
    found: list[Group] = []
    for case in cases:
        together: list[list[Way]] = [[]]
        for way in ways:
            # rpc-over-fabric has no collectives.
            carried = case.mode != MIRRORED or way.transport.key != RPC_OVER_FABRIC.key
            if way in base or not carried:
                continue
            needed = sum(memory_of(case, each) for each in (*base, *together[-1], way))
            if together[-1] and needed > available - SPARE_BYTES:
                together.append([])
            together[-1].append(way)
        found += [Group(case, (*base, *each)) for each in together]
    return tuple(found)


def memory_of(case: Case, way: Way) -> float:
    """Estimate the bytes of memory that the processes of a way take."""
    copies, _ = COSTS[way.transport.key]
    copies += TCP_COPIES if way.fabric == "tcp" else 0.0
    return PROCESS_BYTES * _processes(case, way) + case.network.bytes * (1 + copies * case.workers)


def expected_seconds(plan: TrainPlan) -> float:
    """Estimate the time of a run on two processors."""
    return IMPORT_SECONDS + sum(_group_seconds(plan.pace, group) for group in plan.groups)


def _group_seconds(pace: Pace, group: Group) -> float:
    step = sum(_step_seconds(group.case, way) for way in group.ways)
    starting = sum(START_SECONDS * _processes(group.case, way) + OPEN_SECONDS for way in group.ways)
    steps = pace.steps_of(step / len(group.ways), sync=group.case.sync)
    rounds = pace.rounds * steps * step
    return starting + FIRST_STEPS * step + max(pace.case_seconds, rounds)


def _step_seconds(case: Case, way: Way) -> float:
    _, nanoseconds = COSTS[way.transport.key]
    nanoseconds *= TCP_SLOWER if way.fabric == "tcp" else 1.0
    moving = 1e-9 * nanoseconds * case.network.bytes * case.workers
    if case.compute_ms is not None:
        return max(moving, 0.6 * moving + case.compute_ms / 1e3)
    operations = 3 * case.samples * sum(layer.operations for layer in case.network.layers)
    return moving + operations / (1e9 * REAL_GFLOPS)


def _processes(case: Case, way: Way) -> int:
    layout = case.layout
    return 1 if way.is_local and not layout.mirrored else layout.servers + layout.workers
