"""Trains every job, all ways in turns, and measures its steps with emulated computation."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from farwrite.errors import InvalidArgument
from farwrite.info import memory_available
from farwrite_bench.cluster.forked import import_tensorflow
from farwrite_bench.cluster.group import Turn
from farwrite_bench.cluster.process import MALLOC
from farwrite_bench.failure import noting
from farwrite_bench.harness.benchmark import Progress, stage
from farwrite_bench.report.parts import Row, failed_rows
from farwrite_experiments.convergence.graph import Trainer
from farwrite_experiments.convergence.plan import Block, ConvergencePlan, Job
from farwrite_experiments.train.cluster import Cluster, start
from farwrite_experiments.train.groups import groups
from farwrite_experiments.train.plan import EMULATED, ONE_PROCESS, Case, TrainPlan, Way
from farwrite_experiments.train.rows import counts, fabric_of
from farwrite_experiments.train.run import compare
from farwrite_experiments.train.run import run as measure_steps
from farwrite_experiments.train.variables import Adam

TRAINING_SHARE = 0.8
"""About the part of a job's time that training takes; the rest is its emulated steps."""
WARM_UP_STEPS = 4
"""Steps before the first run: two tasks meet, sites are traced, and memory is touched first."""


def run(plan: ConvergencePlan, progress: Progress, logs: Path) -> Iterator[None]:
    """Train and measure everything that `plan` has not yet, and yield when it has more.

    A job fails if one of its processes fails, if the transports differ in a loss or in a variable,
    or if the loss is no number any more.
    """
    import_tensorflow(MALLOC, logs / "import.log")
    for number, job in enumerate(plan.jobs):
        report = stage(progress, number, len(plan.jobs), job.model.name)
        with noting(plan.failed, job.task):
            yield from _train(plan, job, _part(report, 0.0, TRAINING_SHARE), logs / job.task)
        if not plan.steps_of(job) and job.task not in plan.failed:
            of_steps = _part(report, TRAINING_SHARE, 1.0)
            of_steps(0.0, "emulated computation")
            case = emulated_case(job, plan.runs_of(job))
            divided = groups([case], [ONE_PROCESS, *plan.ways], memory_available())
            steps, folder = TrainPlan(divided, plan.pace.emulated), logs / f"{job.task}-emulated"
            rows = [row for group in measure_steps(steps, of_steps, folder) for row in group]
            if failed := failed_rows(rows):
                plan.failed[job.task] = failed[0]["error"]
            else:
                plan.steps.extend(rows)
            yield


def _train(plan: ConvergencePlan, job: Job, report: Progress, logs: Path) -> Iterator[None]:
    known = {each["run"] for each in plan.runs_of(job)}
    missing = [number for number in range(1, plan.pace.runs + 1) if number not in known]
    if not missing:
        return
    report(0.0, "starting processes")
    with contextlib.ExitStack() as stack:
        clusters = {
            way.key: start(way, job.layout, logs, stack, trainer=Trainer) for way in plan.ways
        }
        for cluster in clusters.values():
            cluster.call("open", job)
            cluster.call("begin", 0)
            _take(cluster, WARM_UP_STEPS)
        for place, number in enumerate(missing):
            of_run = stage(report, place, len(missing), f"run {number}")
            plan.runs.append(race(plan, job, clusters, number, of_run))
            yield


def _part(report: Progress, first: float, last: float) -> Progress:
    """Return what shows the progress of a part of a job."""
    return lambda share, what="": report(first + (last - first) * share, what)


def _take(cluster: Cluster, count: int) -> tuple[Block, Turn]:
    """Take steps; also return the readings of all processes before and behind them."""
    before = cluster.group.look()
    block: Block = cluster.call("take", count, steps=count)
    return block, Turn(block.seconds, before, cluster.group.look())


def race(
    plan: ConvergencePlan, job: Job, clusters: Mapping[str, Cluster], number: int, report: Progress
) -> Row:
    """Train until the quality is reached, or the most steps are taken.

    Each way takes a block of steps in turn, so that all of them share the machine's load. After
    each block all ways must have the same losses and variables, bit for bit. The quality is
    therefore measured on one of them, and its time does not count.
    """
    load = os.getloadavg()[0]
    for cluster in clusters.values():
        cluster.call("begin", number)
    keys = [*clusters]
    turns: dict[str, list[Turn]] = {key: [] for key in keys}
    curve: list[dict[str, float]] = []
    longest: list[list[int]] = []
    reached, quality, taken = False, math.nan, 0
    while not reached and taken < plan.pace.limit:
        report(taken / plan.pace.limit)
        count = min(plan.pace.block, plan.pace.limit - taken)
        taken += count
        first, blocks = len(curve) % len(keys), {}
        for key in (*keys[first:], *keys[:first]):
            blocks[key], turn = _take(clusters[key], count)
            turns[key].append(turn)
        when = f"bench convergence: {job.task}, run {number}: after step {taken}"
        if not all(math.isfinite(loss) for each in blocks.values() for loss in each.losses):
            raise InvalidArgument(
                f"bench convergence: {job.task}, run {number}: the loss is no number before step"
                f" {taken}; the model does not learn {job.data.name}, so give other data in --data"
            )
        compare(when, {key: each.losses for key, each in blocks.items()})
        compare(when, {key: each.call("checksums") for key, each in clusters.items()})
        quality = clusters[keys[0]].call("quality")
        reached = job.model.reached(quality, job.target)
        longest += blocks[keys[0]].longest
        loss = statistics.fmean(blocks[keys[0]].losses)
        curve.append({"step": taken, "loss": loss, "quality": quality})
    return {
        "task": job.task,
        "run": number,
        "seed": number,
        "target": job.target,
        "reached": reached,
        "steps": taken,
        "quality": quality,
        "longest": [round(statistics.fmean(each), 3) for each in zip(*longest, strict=True)],
        "curve": curve,
        "ways": [_way(way, turns[way.key]) for way in plan.ways],
        "load": round(load, 2),
    }


def _way(way: Way, turns: Sequence[Turn]) -> Row:
    steps = [seconds for turn in turns for seconds in turn.seconds]
    ends = itertools.accumulate(sum(turn.seconds) for turn in turns)
    return {
        "transport": way.transport.key,
        "fabric": fabric_of(way),
        "seconds": [round(end, 4) for end in ends],
        "step_ms": round(1e3 * statistics.median(steps), 3),
        **counts(turns),
    }


def emulated_case(job: Job, runs: Sequence[Row]) -> Case:
    """Return the case whose steps have the variables, transfers and updates of a job's steps.

    Its sequences are as long as those of the runs were in the mean.
    """
    model = job.model
    lengths = [
        statistics.fmean(each) for each in zip(*(run["longest"] for run in runs), strict=True)
    ]
    return Case(
        job.task,
        EMULATED,
        model.batch,
        servers=job.servers,
        workers=job.workers,
        other=model.network(lengths),
        optimizer=Adam(model.rate),
    )
