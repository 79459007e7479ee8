"""One run of a job: all ways train the same in turns, until the quality is reached."""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from farwrite.errors import Internal, InvalidArgument
from farwrite_bench.cluster.group import Take, Turn
from farwrite_bench.harness.benchmark import Progress
from farwrite_experiments.convergence.plan import Begin, Block, Evaluate, Job, Open
from farwrite_experiments.convergence.tasks import TASKS
from farwrite_experiments.train.cluster import Cluster
from farwrite_experiments.train.plan import Check, Way
from farwrite_experiments.train.rows import counts, fabric_of

WARM_UP_STEPS = 4
"""Steps before the first run: two tasks meet, sites are traced, and memory is touched first."""

Run = dict[str, Any]


class Runner:
    """A cluster that trains one job.

    Parameters
    ----------
    cluster : Cluster
        Its processes, whose workers run `farwrite_experiments.convergence.worker`.
    job : Job
        The job.
    """

    def __init__(self, cluster: Cluster, job: Job) -> None:
        self._cluster = cluster
        cluster.ask(Open(job))

    def begin(self, seed: int) -> None:
        """Give the variables their first values, and go to the first batch."""
        self._cluster.ask(Begin(seed))

    def take(self, count: int) -> tuple[Block, Turn]:
        """Take steps; also return the readings of all processes before and behind them."""
        before = self._cluster.group.look()
        block = self._cluster.ask(Take(count), count)
        if not isinstance(block, Block):
            raise Internal(f"bench convergence: unexpected answer {block!r}; report this")
        return block, Turn(block.seconds, before, self._cluster.group.look())

    def quality(self) -> float:
        """Measure the quality."""
        quality = self._cluster.ask(Evaluate())
        if not isinstance(quality, float):
            raise Internal(f"bench convergence: unexpected answer {quality!r}; report this")
        return quality

    def checksums(self) -> object:
        """Return the sum over the bits of each variable."""
        return self._cluster.ask(Check())


@dataclass
class _Trained:
    """What one way has done so far."""

    seconds: list[float] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)


def warm_up(runners: Mapping[str, Runner]) -> None:
    """Take the steps that no run counts."""
    for runner in runners.values():
        runner.begin(0)
        runner.take(WARM_UP_STEPS)


def race(
    job: Job,
    ways: Sequence[Way],
    runners: Mapping[str, Runner],
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
    for runner in runners.values():
        runner.begin(number)
    trained = {key: _Trained() for key in runners}
    curve: list[dict[str, float]] = []
    longest: list[list[int]] = []
    reached, quality, turn = False, math.nan, 0
    while not reached and turn * block < limit:
        report(turn * block / limit)
        count = min(block, limit - turn * block)
        keys = [*runners]
        first = turn % len(keys)
        blocks = {}
        for key in (*keys[first:], *keys[:first]):
            blocks[key], of_turn = runners[key].take(count)
            trained[key].seconds += blocks[key].seconds
            trained[key].turns.append(of_turn)
        taken = turn * block + count
        _check_losses(job, number, taken, {key: each.losses for key, each in blocks.items()})
        compare(job, number, taken, {key: each.checksums() for key, each in runners.items()})
        quality = runners[keys[0]].quality()
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
