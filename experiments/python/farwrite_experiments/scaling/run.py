"""Measures every point: all ways in turn, or one after the other where memory has no room."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from farwrite.info import memory_available
from farwrite_bench.cluster.forked import import_tensorflow
from farwrite_bench.cluster.group import Turn
from farwrite_bench.cluster.process import MALLOC
from farwrite_bench.failure import noting
from farwrite_bench.harness.benchmark import Progress, stage
from farwrite_bench.report.parts import Row
from farwrite_experiments.capacity.calibrate import calibrate
from farwrite_experiments.capacity.costs import Costs
from farwrite_experiments.capacity.job import Job, Site, stages
from farwrite_experiments.capacity.predict import predict
from farwrite_experiments.cluster.link import Link
from farwrite_experiments.cluster.machines import machines
from farwrite_experiments.train.cluster import start
from farwrite_experiments.train.groups import SPARE_BYTES, memory_of
from farwrite_experiments.train.pace import Pace
from farwrite_experiments.train.plan import EMULATED, ONE_PROCESS, STOCK, Case, Way
from farwrite_experiments.train.rows import fabric_of
from farwrite_experiments.train.run import measure

CALIBRATION_LINK = Link(100e9)
"""Faster than any connection of this machine."""
BUSY = 0.8
"""From this share on, the processors of this machine limit a step, so it shows no network."""

Turns = Mapping[str, Sequence[Turn]]
"""By the key of the way."""


@dataclass(frozen=True)
class Point:
    """A number of machines, each with a server and a worker, around a link."""

    model: str
    batch: int
    machines: int
    link: Link | None
    """None: nothing is shaped, and all machines use this one's loopback."""

    @property
    def case(self) -> Case:
        """What all transports run."""
        return Case(self.model, EMULATED, self.batch, self.machines, self.machines)

    @property
    def alone(self) -> Case:
        """The purely local run: one worker's steps in one process."""
        return Case(self.model, EMULATED, self.batch, 1, 1)

    @property
    def compute_s(self) -> float:
        """Seconds of a worker's computation in a step."""
        return (self.case.compute_ms or 0.0) / 1e3


@dataclass(frozen=True)
class ScalingPlan:
    """A whole run."""

    points: tuple[Point, ...]
    ways: tuple[Way, ...]
    pace: Pace
    costs: Costs | None = None
    """From which each step is predicted; None measures them first."""
    calibration_rounds: int = 0


def calibration(plan: ScalingPlan, progress: Progress, logs: Path) -> Costs:
    """Measure the costs of the ways between two machines such as those of the run."""
    import_tensorflow(MALLOC, logs / "import.log")
    link = CALIBRATION_LINK if plan.points[0].link else None
    with machines(2, link, logs) as (server, worker):
        where = {"ps": [server], "worker": [worker]}
        folder = logs / "calibration"
        return calibrate(plan.ways, plan.calibration_rounds, where, folder, progress)


def run(plan: ScalingPlan, costs: Costs, progress: Progress, logs: Path) -> Iterator[list[Row]]:
    """Measure everything in `plan`, and yield the rows of each point.

    Parameters
    ----------
    costs : Costs
        The calibration from which each step is predicted.

    A point fails if one of its processes fails, or if its transports end with different variables.
    """
    import_tensorflow(MALLOC, logs / "import.log")
    alone: dict[str, float] = {}
    for number, point in enumerate(plan.points):
        name = f"{point.model}, {point.machines}"
        report = stage(progress, number, len(plan.points), name)
        folder = logs / str(number)
        failed: dict[str, str] = {}
        rows: list[Row] = []
        with noting(failed, name):
            if point.model not in alone:
                alone[point.model] = _alone(plan, point, folder / "local", stage(report, 0, 5))
            rows = _measure(plan, point, alone[point.model], costs, folder, report)
        if name in failed:
            rows = [{**_identity(point, way), "error": failed[name]} for way in plan.ways]
        yield rows


def _identity(point: Point, way: Way) -> Row:
    """Return the keys of a row that name its point and its way."""
    return {
        "model": point.model,
        "batch": point.batch,
        "workers": point.machines,
        "servers": point.machines,
        "link": point.link and str(point.link),
        "transport": way.transport.key,
        "fabric": fabric_of(way),
    }


def _alone(plan: ScalingPlan, point: Point, logs: Path, report: Progress) -> float:
    """Return the seconds of a step of the purely local run."""
    with contextlib.ExitStack() as stack:
        cluster = start(ONE_PROCESS, point.alone.layout, logs, stack)
        turns, _load = measure(point.alone, {ONE_PROCESS.key: cluster}, plan.pace, report)
    return float(np.median(_steps(turns[ONE_PROCESS.key])))


def _measure(
    plan: ScalingPlan, point: Point, local: float, costs: Costs, logs: Path, report: Progress
) -> list[Row]:
    case = point.case
    needed = sum(memory_of(case, way) for way in plan.ways)
    together = needed <= memory_available() - SPARE_BYTES
    groups = [plan.ways] if together else [(way,) for way in plan.ways]
    turns: dict[str, list[Turn]] = {}
    loads = []
    for number, group in enumerate(groups):
        share = stage(lambda done, _="": report(0.2 + 0.8 * done), number, len(groups))
        with contextlib.ExitStack() as stack:
            there = stack.enter_context(machines(point.machines, point.link, logs))
            where = {"ps": there, "worker": there}
            clusters = {way.key: start(way, case.layout, logs, stack, where) for way in group}
            found, load = measure(case, clusters, plan.pace, share)
        turns.update(found)
        loads.append(load)
    return make_rows(point, plan.ways, turns, local, costs, together=together, load=max(loads))


def make_rows(
    point: Point,
    ways: Sequence[Way],
    turns: Turns,
    local: float,
    costs: Costs,
    *,
    together: bool,
    load: float,
) -> list[Row]:
    """Make a row for each way of a point: its step, beside stock's and the predicted one.

    Parameters
    ----------
    local : float
        Seconds of a step of the purely local run.
    together : bool
        Whether the ways took turns; otherwise one cluster ran after the other.
    """
    case = point.case
    job = Job(stages(case.network.layers, point.compute_s), case.workers, case.servers, case.sync)
    site = Site(point.link, costs.cores, one_host=True)
    stock = _steps(turns[STOCK.key]) if STOCK.key in turns else None
    rows = []
    for way in ways:
        steps = _steps(turns[way.key])
        step = float(np.median(steps))
        busy = float(np.median([_busy(turn) for turn in turns[way.key]]))
        foreseen = predict(job, site, costs, costs.transport(way.key))
        rows.append(
            {
                **_identity(point, way),
                "step_ms": round(1e3 * step, 3),
                "step_ms_rounds": (1e3 * steps).round(3).tolist(),
                "local_ms": round(1e3 * local, 3),
                "samples_s": round(case.samples / step, 3),
                "of_local": round(point.machines * local / step, 3),
                "speedup": None if stock is None else _times(stock, steps, together),
                "together": together,
                "cores_busy": round(busy, 3),
                "counts": busy < BUSY,
                "predicted_ms": round(1e3 * foreseen.step_s, 3),
                "prediction_error": round(foreseen.step_s / step - 1, 4),
                "bottleneck": foreseen.bottleneck,
                "calibration": "probes of bytes, messages and steps, 1 server and 1 worker",
                "rounds": len(steps),
                "load": round(load, 2),
            }
        )
    return rows


def _steps(turns: Sequence[Turn]) -> npt.NDArray[np.float64]:
    return np.array([np.median(turn.seconds) for turn in turns])


def _busy(turn: Turn) -> float:
    """Return the share of this machine's processors that worked during a turn."""
    return turn.busy_seconds / ((os.cpu_count() or 1) * sum(turn.seconds))


def _times(stock: npt.NDArray[np.float64], mine: npt.NDArray[np.float64], together: bool) -> float:
    """Divide the steps, round by round where the rounds were the same."""
    ratio = np.median(stock / mine) if together else np.median(stock) / np.median(mine)
    return round(float(ratio), 3)
