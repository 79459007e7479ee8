"""Makes the rows: the time that each way took to the quality, and beside stock's."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from farwrite_bench.ratio import ratio_of_rounds, rounded
from farwrite_bench.report.parts import Row
from farwrite_experiments.convergence.plan import Job
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


def make_rows(
    job: Job, ways: Sequence[Way], runs: Sequence[Row], steps: Sequence[Row]
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


def failed_rows(
    job: Job, ways: Sequence[Way], runs: Sequence[Row], wanted: int, error: str
) -> list[Row]:
    """Make a row for each way of what is missing of a job: runs of those `wanted`, or steps."""
    compute = REAL if len(runs) < wanted else EMULATED
    known = {"task": job.task, "measure": job.model.measure, "target": job.target}
    return [
        {
            **known,
            "transport": way.transport.key,
            "fabric": fabric_of(way),
            "compute": compute,
            "error": error,
        }
        for way in ways
    ]


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


def _real(job: Job, way: Way, runs: Sequence[Row]) -> Row:
    mine = [of_way for run in runs if (of_way := _of(way, run["ways"]))]
    stock = [of_way for run in runs if (of_way := _of(STOCK, run["ways"]))]
    ends = [each["seconds"] for each in mine]
    of_grpc = None
    if stock and way != STOCK:
        # The ways of a run took the same steps, even where the quality was not reached.
        of_grpc = ratio_of_rounds(
            [each[-1] for each in ends], [each["seconds"][-1] for each in stock]
        )
    measured = {
        "step_ms": round(statistics.fmean(each["step_ms"] for each in mine), 3),
        "of_grpc": of_grpc,
        **{name: _mean([each[name] for each in mine]) for name in COUNTED},
        "load": max(run["load"] for run in runs),
    }
    return _row(job, way, REAL, runs, ends, measured)


def _emulated(job: Job, way: Way, runs: Sequence[Row], steps: Sequence[Row]) -> Row:
    mine = _of(way, steps)
    assert mine is not None, "all ways were measured"
    step = mine["step_ms"] / 1e3
    stock = _of(STOCK, [row for row in steps if row["group"] == mine["group"]])
    of_grpc = None
    if stock and way != STOCK:
        rounds = mine["step_ms_rounds"], stock["step_ms_rounds"]
        low, high = interval(np.divide(*rounds))
        of_grpc = {**ratio_of_rounds(*rounds), "low": rounded(low), "high": rounded(high)}
    ends = [[step * point["step"] for point in run["curve"]] for run in runs]
    copied = {name: mine[name] for name in ("step_ms", "compute_ms", *COUNTED, "load")}
    return _row(job, way, EMULATED, runs, ends, {**copied, "of_grpc": of_grpc})


def _row(
    job: Job,
    way: Way,
    compute: str,
    runs: Sequence[Row],
    ends: Sequence[Sequence[float]],
    measured: Row,
) -> Row:
    """Make a row; `ends` has the seconds at which the steps of each run's curve ended."""
    of_runs = list(zip(runs, ends, strict=True))
    curves = [_curve(run, seconds) for run, seconds in of_runs]
    return {
        "task": job.task,
        "transport": way.transport.key,
        "fabric": fabric_of(way),
        "compute": compute,
        "batch": job.model.batch,
        "servers": job.servers,
        "workers": job.workers,
        "data": {"name": job.data.name, "synthetic": job.data.synthetic},
        "measure": job.model.measure,
        "target": job.target,
        "runs": [run["run"] for run in runs],
        "seeds": [run["seed"] for run in runs],
        "reached": sum(run["reached"] for run in runs),
        "quality": [round(run["quality"], 4) for run in runs],
        "steps_to_quality": spread([run["steps"] if run["reached"] else None for run in runs]),
        "longest": runs[0]["longest"],
        "seconds_to_quality": spread(
            [seconds[-1] if run["reached"] else None for run, seconds in of_runs]
        ),
        "curve": curves[0],
        "curves": curves,
        **measured,
    }


def _of(way: Way, rows: Sequence[Row]) -> Row | None:
    """Return the row of a way, if there is one."""
    known = way.transport.key, fabric_of(way)
    return next((row for row in rows if (row["transport"], row["fabric"]) == known), None)


def _curve(run: Row, seconds: Sequence[float]) -> list[dict[str, float]]:
    return [
        {
            "step": point["step"],
            "loss": round(point["loss"], 5),
            "quality": round(point["quality"], 5),
            "seconds": round(end, 4),
        }
        for point, end in zip(run["curve"], seconds, strict=True)
    ]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(statistics.fmean(known), 4) if known else None
