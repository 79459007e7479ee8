"""Makes the rows: the time that each way took to the quality, and beside stock's."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from farwrite_bench.ratio import rounded
from farwrite_experiments.convergence.plan import Job
from farwrite_experiments.convergence.race import Run
from farwrite_experiments.convergence.tasks import TASKS
from farwrite_experiments.train.plan import EMULATED, REAL, STOCK, Way
from farwrite_experiments.train.rows import fabric_of, interval

COUNTED = (
    "copies_per_step",
    "registrations_per_step",
    "requests_per_step",
    "tensor_bytes_per_step",
    "socket_bytes_per_step",
    "cpu_s_per_step",
)
"""What a step costs in all processes."""

Row = dict[str, Any]


def make_rows(
    job: Job, ways: Sequence[Way], runs: Sequence[Run], steps: Sequence[Row]
) -> list[Row]:
    """Make a row for each way with real computation, and one with emulated computation.

    Parameters
    ----------
    runs : sequence of dict
        The runs of the job.
    steps : sequence of dict
        The rows of its emulated steps. Empty if they are not measured yet.
    """
    if not runs:
        return []
    rows = [_real(job, way, runs) for way in ways]
    return rows + [_emulated(job, way, runs, steps) for way in ways if steps]


def spread(values: Sequence[float | None], digits: int = 3) -> dict[str, Any] | None:
    """Return the mean, the lowest and the highest of the runs' values; None if one is missing."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    return {
        "mean": round(statistics.fmean(known), digits),
        "low": round(min(known), digits),
        "high": round(max(known), digits),
        "runs": [round(value, digits) for value in known],
    }


def _base(job: Job, way: Way, compute: str, runs: Sequence[Run]) -> Row:
    task = TASKS[job.task]
    return {
        "task": job.task,
        "transport": way.transport.key,
        "fabric": fabric_of(way),
        "compute": compute,
        "batch": task.batch,
        "servers": job.servers,
        "workers": job.workers,
        "data": {"name": job.data.name, "synthetic": job.data.synthetic},
        "measure": task.measure,
        "target": job.target,
        "runs": [run["run"] for run in runs],
        "seeds": [run["seed"] for run in runs],
        "reached": sum(run["reached"] for run in runs),
        "quality": [round(run["quality"], 4) for run in runs],
        "steps_to_quality": spread([_steps(run) for run in runs]),
        "longest": runs[0]["longest"],
    }


def _steps(run: Run) -> int | None:
    return int(run["steps"]) if run["reached"] else None


def _of(run: Run, way: Way) -> Row:
    found: Row = next(
        each
        for each in run["ways"]
        if (each["transport"], each["fabric"]) == (way.transport.key, fabric_of(way))
    )
    return found


def _real(job: Job, way: Way, runs: Sequence[Run]) -> Row:
    mine = [_of(run, way) for run in runs]
    seconds = [
        each["seconds"][-1] if run["reached"] else None
        for run, each in zip(runs, mine, strict=True)
    ]
    return {
        **_base(job, way, REAL, runs),
        "step_ms": round(statistics.fmean(each["step_ms"] for each in mine), 3),
        "seconds_to_quality": spread(seconds),
        # The ways of a run took the same steps, even where the quality was not reached.
        "of_grpc": _of_stock([_beside(run, way) for run in runs]),
        "curve": _curve(runs[0], mine[0]["seconds"]),
        "curves": [_curve(run, each["seconds"]) for run, each in zip(runs, mine, strict=True)],
        **{name: _mean(mine, name) for name in COUNTED},
        "load": max(run["load"] for run in runs),
    }


def _beside(run: Run, way: Way) -> float | None:
    """Return the time of a run over stock's, of the same steps in turns."""
    stock = [each for each in run["ways"] if each["transport"] == STOCK.transport.key]
    if not stock or way == STOCK:
        return None
    return float(_of(run, way)["seconds"][-1] / stock[0]["seconds"][-1])


def _of_stock(ratios: Sequence[float | None]) -> dict[str, float] | None:
    known = [ratio for ratio in ratios if ratio is not None]
    return _ratio(statistics.median(known), min(known), max(known)) if known else None


def _ratio(median: float, low: float, high: float) -> dict[str, float]:
    return {"median": rounded(median), "low": rounded(low), "high": rounded(high)}


def _emulated(job: Job, way: Way, runs: Sequence[Run], steps: Sequence[Row]) -> Row:
    mine = next(
        row
        for row in steps
        if (row["transport"], row["fabric"]) == (way.transport.key, fabric_of(way))
    )
    step = mine["step_ms"] / 1e3
    taken = [_steps(run) for run in runs]
    ends = [[step * point["step"] for point in run["curve"]] for run in runs]
    return {
        **_base(job, way, EMULATED, runs),
        "step_ms": mine["step_ms"],
        "compute_ms": mine["compute_ms"],
        "seconds_to_quality": spread([None if each is None else step * each for each in taken]),
        "of_grpc": _emulated_ratio(mine, steps),
        "curve": _curve(runs[0], ends[0]),
        "curves": [_curve(run, seconds) for run, seconds in zip(runs, ends, strict=True)],
        **{name: mine[name] for name in COUNTED},
        "load": mine["load"],
    }


def _emulated_ratio(mine: Row, steps: Sequence[Row]) -> dict[str, float] | None:
    """Return the step over stock's of the same rounds: the median, and its interval."""
    stock = [
        row
        for row in steps
        if row["transport"] == STOCK.transport.key and row["group"] == mine["group"]
    ]
    if not stock or mine["transport"] == STOCK.transport.key:
        return None
    ratios = np.array(mine["step_ms_rounds"]) / np.array(stock[0]["step_ms_rounds"])
    return _ratio(float(np.median(ratios)), *interval(ratios))


def _curve(run: Run, seconds: Sequence[float]) -> list[dict[str, float]]:
    return [
        {
            "step": point["step"],
            "loss": round(point["loss"], 5),
            "quality": round(point["quality"], 5),
            "seconds": round(end, 4),
        }
        for point, end in zip(run["curve"], seconds, strict=True)
    ]


def _mean(rows: Sequence[Mapping[str, Any]], name: str) -> float | None:
    known = [row[name] for row in rows if row[name] is not None]
    return round(statistics.fmean(known), 4) if known else None
