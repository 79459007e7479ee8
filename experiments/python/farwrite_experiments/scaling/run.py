"""Measures every point: all ways in turn, or one after the other where memory has no room."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from farwrite.info import memory_available
from farwrite_bench.cluster.forked import import_tensorflow
from farwrite_bench.cluster.group import Turn
from farwrite_bench.cluster.process import MALLOC
from farwrite_bench.harness.benchmark import Progress, stage
from farwrite_experiments.capacity.calibrate import calibrate
from farwrite_experiments.capacity.costs import Costs
from farwrite_experiments.cluster.link import Link
from farwrite_experiments.cluster.machines import Machine, machines, on_loopback
from farwrite_experiments.scaling.plan import Point, ScalingPlan
from farwrite_experiments.scaling.rows import Row, Turns, make_rows
from farwrite_experiments.train.cluster import start
from farwrite_experiments.train.groups import SPARE_BYTES, memory_of
from farwrite_experiments.train.plan import ONE_PROCESS, Way
from farwrite_experiments.train.run import measure

CALIBRATION_LINK = Link(100e9)
"""Faster than any connection of this machine."""


def run(
    plan: ScalingPlan, costs: Costs, shaped: bool, progress: Progress, logs: Path
) -> Iterator[list[Row]]:
    """Measure everything in `plan`, and yield the rows of each point.

    Parameters
    ----------
    costs : Costs
        The calibration from which each step is predicted.
    shaped : bool
        Whether each machine is a network namespace with a shaped link; otherwise all of them are
        this machine, over its loopback.

    Raises
    ------
    PeerDead
        If a process fails.
    Internal
        If the transports end with different variables.
    """
    import_tensorflow(MALLOC, logs / "import.log")
    alone: dict[str, Turns] = {}
    for number, point in enumerate(plan.points):
        name = f"{point.model}, {point.machines}"
        report = stage(progress, number, len(plan.points), name)
        folder = logs / str(number)
        if point.model not in alone:
            alone[point.model] = _alone(plan, point, folder / "local", stage(report, 0, 5))
        turns = _measure(plan, point, shaped, folder, report)
        yield make_rows(point, plan.ways, turns, alone[point.model], costs, shaped=shaped)


def calibration(
    ways: Sequence[Way], rounds: int, shaped: bool, progress: Progress, logs: Path
) -> Costs:
    """Measure the costs of `ways` between two machines such as those of a run."""
    import_tensorflow(MALLOC, logs / "import.log")
    with _machines(2, CALIBRATION_LINK, shaped, logs) as (server, worker):
        where = {"ps": [server], "worker": [worker]}
        return calibrate(ways, rounds, where, logs / "calibration", progress)


def _alone(plan: ScalingPlan, point: Point, logs: Path, report: Progress) -> Turns:
    with contextlib.ExitStack() as stack:
        cluster = start(ONE_PROCESS, point.alone.layout, logs, stack)
        turns, load = measure(point.alone, {ONE_PROCESS.key: cluster}, plan.pace, report)
    return Turns(turns, together=False, load=load)


def _measure(plan: ScalingPlan, point: Point, shaped: bool, logs: Path, report: Progress) -> Turns:
    case = point.case
    needed = sum(memory_of(case, way) for way in plan.ways)
    together = needed <= memory_available() - SPARE_BYTES
    groups = [plan.ways] if together else [(way,) for way in plan.ways]
    turns: dict[str, list[Turn]] = {}
    load = 0.0
    for number, group in enumerate(groups):
        share = stage(lambda done, _="": report(0.2 + 0.8 * done), number, len(groups))
        with contextlib.ExitStack() as stack:
            there = stack.enter_context(_machines(point.machines, point.link, shaped, logs))
            where = {"ps": there, "worker": there}
            clusters = {way.key: start(way, case.layout, logs, stack, where) for way in group}
            found, load_then = measure(case, clusters, plan.pace, share)
        turns.update(found)
        load = max(load, load_then)
    return Turns(turns, together, load)


@contextlib.contextmanager
def _machines(count: int, link: Link, shaped: bool, logs: Path) -> Iterator[list[Machine]]:
    if not shaped:
        yield on_loopback(count)
        return
    with machines(count, link, logs) as made:
        yield made
