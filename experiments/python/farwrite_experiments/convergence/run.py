"""Trains every job, and measures its steps with emulated computation."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from farwrite.info import memory_available
from farwrite_bench.cluster.forked import import_tensorflow
from farwrite_bench.cluster.process import MALLOC
from farwrite_bench.harness.benchmark import Progress, stage
from farwrite_experiments.convergence.plan import ConvergencePlan, Job
from farwrite_experiments.convergence.race import Run, race, warm_up
from farwrite_experiments.convergence.tasks import TASKS
from farwrite_experiments.train.cluster import start
from farwrite_experiments.train.groups import groups
from farwrite_experiments.train.optimizers import Adam
from farwrite_experiments.train.plan import EMULATED, ONE_PROCESS, Case, TrainPlan
from farwrite_experiments.train.run import run as measure_steps

TRAINER = "farwrite_experiments.convergence.worker"
TRAINING_SHARE = 0.8
"""About the part of a job's time that training takes; the rest is its emulated steps."""

Row = dict[str, Any]


class Results:
    """What a run has measured so far.

    Parameters
    ----------
    runs : list
        The runs of the jobs, as `race` returns them.
    steps : list
        The rows of the emulated steps, as `farwrite_experiments.train.rows` makes them.
    """

    def __init__(self, runs: list[Run], steps: list[Row]) -> None:
        self.runs, self.steps = runs, steps

    def of(self, job: Job) -> list[Run]:
        """Return the runs of a job."""
        return [run for run in self.runs if run["task"] == job.task]

    def steps_of(self, job: Job) -> list[Row]:
        """Return the rows of a job's emulated steps; empty if they are not measured."""
        return [row for row in self.steps if row["model"] == job.task]


def run(plan: ConvergencePlan, results: Results, progress: Progress, logs: Path) -> Iterator[None]:
    """Train and measure everything in `plan` that `results` lacks, and yield when it has more.

    Raises
    ------
    PeerDead
        If a process fails.
    Internal
        If the transports differ in a loss or in a variable.
    """
    import_tensorflow(MALLOC, logs / "import.log")
    for number, job in enumerate(plan.jobs):
        report = stage(progress, number, len(plan.jobs), TASKS[job.task].name)
        yield from _train(plan, job, results, report, logs / job.task)
        if not results.steps_of(job):
            report(TRAINING_SHARE, "emulated computation")
            _emulate(plan, job, results, report, logs / f"{job.task}-emulated")
            yield


def _train(
    plan: ConvergencePlan, job: Job, results: Results, report: Progress, logs: Path
) -> Iterator[None]:
    known = {each["run"] for each in results.of(job)}
    missing = [number for number in range(1, plan.pace.runs + 1) if number not in known]
    if not missing:
        return
    task = TASKS[job.task]
    report(0.0, "starting processes")
    with contextlib.ExitStack() as stack:
        clusters = {
            way.key: start(way, job.layout, logs, stack, trainer=TRAINER) for way in plan.ways
        }
        warm_up(job, clusters)
        for place, number in enumerate(missing):
            block, limit = plan.pace.block_of(task), plan.pace.limit_of(task)
            of_run = stage(_part(report, 0.0, TRAINING_SHARE), place, len(missing), f"run {number}")
            results.runs.append(race(job, plan.ways, clusters, number, block, limit, of_run))
            yield


def _emulate(
    plan: ConvergencePlan, job: Job, results: Results, report: Progress, logs: Path
) -> None:
    case = emulated_case(job, results.of(job))
    divided = groups([case], [ONE_PROCESS, *plan.ways], memory_available())
    of_steps = _part(report, TRAINING_SHARE, 1.0)
    for rows in measure_steps(TrainPlan(divided, plan.pace.emulated), of_steps, logs):
        results.steps.extend(rows)


def _part(report: Progress, first: float, last: float) -> Progress:
    """Return what shows the progress of a part of a job."""
    return lambda share, what="": report(first + (last - first) * share, what)


def emulated_case(job: Job, runs: Sequence[Run]) -> Case:
    """Return the case whose steps have the variables, transfers and updates of a job's steps.

    Its sequences are as long as those of the runs were in the mean.
    """
    task = TASKS[job.task]
    lengths = [
        statistics.fmean(each) for each in zip(*(run["longest"] for run in runs), strict=True)
    ]
    return Case(
        job.task,
        EMULATED,
        task.batch,
        servers=job.servers,
        workers=job.workers,
        other=task.model.network(task.batch, lengths),
        optimizer=Adam(task.rate),
    )
