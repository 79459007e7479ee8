"""Measures every kind of program. In each round each way has one turn."""

from __future__ import annotations

import contextlib
import os
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path

from farwrite.errors import Internal
from farwrite_bench.cluster.busy import busy_cores
from farwrite_bench.cluster.forked import ForkedTask
from farwrite_bench.cluster.group import Group, Take, Turn, in_turn
from farwrite_bench.cluster.process import free_addresses
from farwrite_bench.cluster.seat import Seat, Threads
from farwrite_bench.step.plan import (
    FEWEST_ROUNDS,
    FEWEST_STEPS,
    KINDS,
    MOST_STEPS,
    TURN_SECONDS,
    WAYS,
    Begin,
    Count,
    Kind,
    StepPlan,
)
from farwrite_bench.step.rows import Row, make_rows
from farwrite_bench.tensor.plan import LOCAL

THREADS = Threads()
"""TensorFlow's defaults: one thread per core."""
FIRST_STEPS = 40
"""Steps that are not measured: tracing, and the first meeting of two tasks."""
TRIED_STEPS = 10
"""Steps from whose time the steps of a turn follow."""
WARM_UP_STEPS = 3
"""Steps before each turn, which are not measured."""

Progress = Callable[[float, str], None]


def run(plan: StepPlan, progress: Progress, logs: Path) -> list[Row]:
    """Measure everything in `plan`; the children's output goes to `logs`.

    Raises
    ------
    PeerDead
        If a process fails.
    """
    rows: list[Row] = []
    for number, key in enumerate(plan.kinds):

        def report(share: float, what: str, before: int = number) -> None:
            progress((before + share) / len(plan.kinds), what)

        report(0.0, f"{key}: starting processes")
        folder = logs / key
        with _groups(plan, KINDS[key], folder) as groups:
            for group in groups.values():
                group.seconds(Take(FIRST_STEPS))
            load = os.getloadavg()[0]
            with busy_cores(plan.busy, folder):
                turns = _turns(plan, key, groups, report)
            rows += make_rows(key, plan.busy, turns, load)
    return rows


def _turns(
    plan: StepPlan, kind: str, groups: dict[str, Group], report: Progress
) -> dict[str, list[Turn]]:
    seconds = {
        way: statistics.median(group.seconds(Take(TRIED_STEPS))) for way, group in groups.items()
    }
    counts = {
        way: min(max(int(TURN_SECONDS / each), FEWEST_STEPS), MOST_STEPS)
        for way, each in seconds.items()
    }
    round_seconds = sum((WARM_UP_STEPS + counts[way]) * each for way, each in seconds.items())
    rounds = min(plan.rounds, max(int(plan.kind_seconds / round_seconds), FEWEST_ROUNDS))
    turns: dict[str, list[Turn]] = {way: [] for way in groups}
    for number, way in in_turn(list(groups), rounds):
        report((number + 0.5) / (rounds + 0.5), f"{kind}: {way}")
        groups[way].seconds(Take(WARM_UP_STEPS))
        turns[way].append(groups[way].turn(Take(counts[way])))
    for way, group in groups.items():
        taken = FIRST_STEPS + TRIED_STEPS + rounds * (WARM_UP_STEPS + counts[way])
        if (found := group.client.ask(Count())) != taken:
            raise Internal(
                f"bench step: {kind} over {WAYS[way].name}: after {taken} steps the program"
                f" counts {found}; report this"
            )
    return turns


@contextlib.contextmanager
def _groups(plan: StepPlan, kind: Kind, logs: Path) -> Iterator[dict[str, Group]]:
    """Start the processes of all ways of a kind, and end them at the end."""
    with contextlib.ExitStack() as stack:
        groups = {way: _start(plan, kind, way, logs, stack) for way in plan.ways}
        for group in groups.values():
            for task in (*group.servers, group.client):
                task.receive()
        yield groups


def _start(plan: StepPlan, kind: Kind, way: str, logs: Path, stack: contextlib.ExitStack) -> Group:
    """Start the processes of one way, without waiting until they are ready."""
    transport = WAYS[way]
    forced = {} if plan.fabric is None else {"FARWRITE_FABRICS": plan.fabric}
    jobs = () if way == LOCAL.key else (*kind.servers, kind.client)
    addresses = free_addresses(len(jobs)) if jobs else []
    cluster = {job: [at] for job, at in zip(jobs, addresses, strict=True)}

    def start(job: str, module: str) -> ForkedTask:
        log = logs / f"{way.replace(' ', '-')}-{job}.log"
        return stack.enter_context(
            ForkedTask(f"{way} {job}", module, {**transport.environment, **forced}, log)
        )

    def seat(job: str) -> Seat:
        return Seat(cluster, job, 0, transport, THREADS)

    servers = {job: start(job, "farwrite_bench.cluster.server") for job in jobs[:-1]}
    # Started last, so that it ends first, while its servers still answer.
    client = start(kind.client, "farwrite_bench.step.client")
    for job, server in servers.items():
        server.send(seat(job))
    client.send(Begin(kind, seat(kind.client)))
    return Group(client, list(servers.values()))
