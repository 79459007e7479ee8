"""Measures every group. In each round each way has one turn."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from farwrite.errors import Internal
from farwrite_bench.cluster.forked import import_tensorflow
from farwrite_bench.cluster.group import Turn, in_turn
from farwrite_bench.cluster.process import MALLOC
from farwrite_bench.failure import noting
from farwrite_bench.harness.benchmark import Progress, stage
from farwrite_experiments.train.cluster import Cluster, start
from farwrite_experiments.train.pace import FIRST_STEPS, Pace
from farwrite_experiments.train.plan import EMULATED, MIRRORED, ONE_PROCESS, Case, TrainPlan
from farwrite_experiments.train.rows import Row, identity, make_rows


def run(plan: TrainPlan, progress: Progress, logs: Path) -> Iterator[list[Row]]:
    """Measure everything in `plan`, and yield the rows of each group.

    A group fails if one of its processes fails, or if its transports end with different variables.
    """
    import_tensorflow(MALLOC, logs / "import.log")
    for number, group in enumerate(plan.groups):
        name = f"{group.case.model}, batch {group.case.batch}"
        report = stage(progress, number, len(plan.groups), name)
        report(0.0)
        failed: dict[str, str] = {}
        rows: list[Row] = []
        with noting(failed, name), contextlib.ExitStack() as stack:
            folder = logs / str(number)
            layout = group.case.layout
            clusters = {way.key: start(way, layout, folder, stack) for way in group.ways}
            turns, load = measure(group.case, clusters, plan.pace, report)
            rows = make_rows(group.case, group.ways, turns, load)
        if name in failed:
            rows = [{**identity(group.case, way), "error": failed[name]} for way in group.ways]
        yield rows


def measure(
    case: Case, clusters: Mapping[str, Cluster], pace: Pace, report: Progress
) -> tuple[dict[str, list[Turn]], float]:
    """Let running clusters take turns, from the creation of a case's variables to their end.

    Returns
    -------
    tuple
        The turns of each cluster, round by round, and the load of the machine before them.

    Raises
    ------
    PeerDead
        If a process fails.
    Internal
        If the clusters end with different variables.
    """
    step = 0.0
    for each in clusters.values():
        each.open(case)
        step += each.take(case, FIRST_STEPS).seconds[-1]
    steps = pace.steps_of(step / len(clusters), sync=case.sync)
    rounds = pace.rounds_of(steps, step)
    load = os.getloadavg()[0]
    turns: dict[str, list[Turn]] = {key: [] for key in clusters}
    for number, key in in_turn(list(clusters), rounds):
        report((number + 0.5) / (rounds + 0.5))
        turns[key].append(clusters[key].take(case, steps))
    if case.sync and case.compute == EMULATED:
        found = {key: each.checksums(case) for key, each in clusters.items()}
        if case.mode == MIRRORED and case.workers > 2:
            # The mean of two equal gradients is exact, and that of more is rounded; local has one.
            found.pop(ONE_PROCESS.key, None)
        compare(f"bench train: {case.model}: after the same steps", found)
    for each in clusters.values():
        each.close(case)
    return turns, load


def compare(when: str, found: Mapping[str, object]) -> None:
    """Check that all ways have the same values.

    Raises
    ------
    Internal
        If two of them differ. Its message begins with `when`.
    """
    (first, expected), *others = found.items()
    for key, values in others:
        if values != expected:
            raise Internal(f"{when}, {key} and {first} have different values; report this")
