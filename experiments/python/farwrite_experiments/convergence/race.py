"""One run of a job: all ways train the same in turns, until the quality is reached."""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from farwrite.errors import Internal, InvalidArgument
from farwrite_bench.cluster.group import Turn
from farwrite_bench.harness.benchmark import Progress
from farwrite_experiments.convergence.plan import Block, Job
from farwrite_experiments.convergence.tasks import TASKS
from farwrite_experiments.train.cluster import Cluster
from farwrite_experiments.train.plan import Way
from farwrite_experiments.train.rows import counts, fabric_of

WARM_UP_STEPS = 4
"""Steps before the first run: two tasks meet, sites are traced, and memory is touched first."""

Run = dict[str, Any]


@dataclass
class _Trained:
    """What one way has done so far."""

    seconds: list[float] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)


def warm_up(job: Job, clusters: Mapping[str, Cluster]) -> None:
    """Build the graph of a job, and take the steps that no run counts."""
    for cluster in clusters.values():
        cluster.call("open", job)
        cluster.call("begin", 0)
        _take(cluster, WARM_UP_STEPS)


def _take(cluster: Cluster, count: int) -> tuple[Block, Turn]:
    """Take steps; also return the readings of all processes before and behind them."""
    before = cluster.group.look()
    block: Block = cluster.call("take", count, steps=count)
    return block, Turn(block.seconds, before, cluster.group.look())


def race(
    job: Job,
    ways: Sequence[Way],
    clusters: Mapping[str, Cluster],
    number: int,
    block: int,
    limit: int,
    report: Progress,
) -> Run:
    """Train until the quality is reached, or `limit` steps are taken.

    Each way takes a block of steps in turn, so that all of them share the machine's load. After
    each block all ways must have the same losses and variables, bit for bit. The quality is
    therefore measured on one of them, and its time does not count.

    Raises
    ------
    Internal
        If the ways differ.
    InvalidArgument
        If the loss is no number any more.
    """
    task = TASKS[job.task]
    load = os.getloadavg()[0]
    for cluster in clusters.values():
        cluster.call("begin", number)
    trained = {key: _Trained() for key in clusters}
    curve: list[dict[str, float]] = []
    longest: list[list[int]] = []
    reached, quality, turn = False, math.nan, 0
    while not reached and turn * block < limit:
        report(turn * block / limit)
        count = min(block, limit - turn * block)
        keys = [*clusters]
        first = turn % len(keys)
        blocks = {}
        for key in (*keys[first:], *keys[:first]):
            blocks[key], of_turn = _take(clusters[key], count)
            trained[key].seconds += blocks[key].seconds
            trained[key].turns.append(of_turn)
        taken = turn * block + count
        _check_losses(job, number, taken, {key: each.losses for key, each in blocks.items()})
        compare(job, number, taken, {key: each.call("checksums") for key, each in clusters.items()})
        quality = clusters[keys[0]].call("quality")
        reached = task.reached(quality, job.target)
        longest += blocks[keys[0]].longest
        loss = statistics.fmean(blocks[keys[0]].losses)
        curve.append({"step": taken, "loss": loss, "quality": quality})
        turn += 1
    return {
        "task": job.task,
        "run": number,
        "seed": number,
        "target": job.target,
        "reached": reached,
        "steps": curve[-1]["step"],
        "quality": quality,
        "longest": [round(statistics.fmean(each), 3) for each in zip(*longest, strict=True)],
        "curve": curve,
        "ways": [_way(way, trained[way.key], curve) for way in ways],
        "load": round(load, 2),
    }


def compare(job: Job, number: int, step: int, found: Mapping[str, object]) -> None:
    """Check that all ways have the same values.

    Raises
    ------
    Internal
        If two of them differ.
    """
    first, *others = found.items()
    for key, values in others:
        if values != first[1]:
            raise Internal(
                f"bench convergence: {job.task}, run {number}: after step {step}, {key} and"
                f" {first[0]} have different values; report this"
            )


def _check_losses(job: Job, number: int, step: int, losses: Mapping[str, list[float]]) -> None:
    if not all(math.isfinite(loss) for each in losses.values() for loss in each):
        raise InvalidArgument(
            f"bench convergence: {job.task}, run {number}: the loss is no number before step"
            f" {step}; the model does not learn {job.data.name}, so give other data in --data"
        )
    compare(job, number, step, losses)


def _way(way: Way, trained: _Trained, curve: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    ends = [int(point["step"]) for point in curve]
    return {
        "transport": way.transport.key,
        "fabric": fabric_of(way),
        "seconds": [round(sum(trained.seconds[:end]), 4) for end in ends],
        "step_ms": round(1e3 * statistics.median(trained.seconds), 3),
        **counts(trained.turns),
    }
