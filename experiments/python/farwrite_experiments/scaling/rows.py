"""Makes the rows of a point: its step, beside stock, a purely local run, and the prediction."""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from farwrite_bench.cluster.group import Turn
from farwrite_experiments.capacity.costs import Costs
from farwrite_experiments.capacity.job import Job, Site, stages
from farwrite_experiments.capacity.predict import Prediction, predict
from farwrite_experiments.scaling.plan import Point
from farwrite_experiments.train.plan import ONE_PROCESS, STOCK, Way
from farwrite_experiments.train.rows import fabric_of

BUSY = 0.8
"""From this share on, the processors of this machine limit a step, so it shows no network."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Turns:
    """What all ways of a point measured."""

    of_way: dict[str, list[Turn]]
    together: bool
    """Whether the ways took turns; otherwise one cluster ran after the other."""
    load: float


def make_rows(
    point: Point, ways: Sequence[Way], turns: Turns, alone: Turns, costs: Costs, *, shaped: bool
) -> list[Row]:
    """Make a row for each way of a point."""
    local = statistics.median(_steps(alone.of_way[ONE_PROCESS.key]))
    stock = _steps(turns.of_way[STOCK.key]) if STOCK.key in turns.of_way else None
    return [_row(point, way, turns, local, stock, costs, shaped=shaped) for way in ways]


def _row(
    point: Point,
    way: Way,
    turns: Turns,
    local: float,
    stock: Sequence[float] | None,
    costs: Costs,
    *,
    shaped: bool,
) -> Row:
    of_way = turns.of_way[way.key]
    steps = _steps(of_way)
    step = statistics.median(steps)
    busy = statistics.median(_busy(turn) for turn in of_way)
    foreseen = foresee(point, way, costs, shaped=shaped)
    return {
        "model": point.model,
        "batch": point.batch,
        "workers": point.machines,
        "servers": point.machines,
        "link": str(point.link) if shaped else None,
        "transport": way.transport.key,
        "fabric": fabric_of(way),
        "step_ms": round(1e3 * step, 3),
        "step_ms_rounds": [round(1e3 * each, 3) for each in steps],
        "local_ms": round(1e3 * local, 3),
        "samples_s": round(point.case.samples / step, 3),
        "of_local": round(point.machines * local / step, 3),
        "speedup": None if stock is None else round(_times(stock, steps, turns.together), 3),
        "together": turns.together,
        "cores_busy": round(busy, 3),
        "counts": busy < BUSY,
        "predicted_ms": round(1e3 * foreseen.step_s, 3),
        "prediction_error": round(foreseen.step_s / step - 1, 4),
        "bottleneck": foreseen.bottleneck,
        "calibration": "probes of bytes, messages and steps, 1 server and 1 worker",
        "rounds": len(steps),
        "load": round(turns.load, 2),
    }


def foresee(point: Point, way: Way, costs: Costs, *, shaped: bool) -> Prediction:
    """Predict a point over a way on this machine."""
    case = point.case
    assert case.compute_ms is not None
    job = Job(
        stages(case.network.layers, case.compute_ms / 1e3), case.workers, case.servers, case.sync
    )
    site = Site(point.link if shaped else None, costs.cores, one_host=True)
    return predict(job, site, costs, costs.transport(way.key))


def _steps(turns: Sequence[Turn]) -> list[float]:
    return [statistics.median(turn.seconds) for turn in turns]


def _busy(turn: Turn) -> float:
    """Return the share of this machine's processors that worked during a turn."""
    cores = os.cpu_count() or 1
    return turn.busy_seconds / (cores * sum(turn.seconds))


def _times(stock: Sequence[float], mine: Sequence[float], together: bool) -> float:
    if together:
        return statistics.median(other / own for other, own in zip(stock, mine, strict=True))
    return statistics.median(stock) / statistics.median(mine)
