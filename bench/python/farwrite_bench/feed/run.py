"""Measures every size. In each round each way has a turn of feeds and a turn of fetches."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from farwrite.units import format_size
from farwrite_bench.cluster.forked import ForkedTask
from farwrite_bench.cluster.group import Group, Take, Turn, in_turn
from farwrite_bench.cluster.process import free_addresses
from farwrite_bench.cluster.seat import Seat, Threads
from farwrite_bench.feed.plan import (
    FEED,
    FETCH,
    FEWEST_ROUNDS,
    FEWEST_STEPS,
    MOST_STEPS,
    OPERATIONS,
    TURN_SECONDS,
    WAYS,
    Begin,
    Close,
    FeedPlan,
    Open,
)
from farwrite_bench.feed.rows import Row, make_rows

THREADS = Threads()
"""TensorFlow's defaults: one thread per core."""
FIRST_STEPS = 2
"""Steps of each operation that are not measured. The last one gives the steps of a turn."""

Progress = Callable[[float, str], None]
Turns = dict[str, dict[str, list[Turn]]]
"""Turns by operation and way."""


def run(plan: FeedPlan, progress: Progress, logs: Path) -> list[Row]:
    """Measure everything in `plan`; the children's output goes to `logs`.

    Raises
    ------
    PeerDead
        If a process fails, or what it fetched is not what it fed.
    """
    rows: list[Row] = []
    progress(0.0, "starting processes")
    with _groups(plan, logs) as groups:
        for number, size in enumerate(plan.sizes):

            def report(share: float, before: int = number, size: int = size) -> None:
                progress((before + share) / len(plan.sizes), format_size(size))

            report(0.0)
            load = os.getloadavg()[0]
            rows += make_rows(plan, size, _turns(plan, size, groups, report), load)
    return rows


def _turns(
    plan: FeedPlan, size: int, groups: dict[str, Group], report: Callable[[float], None]
) -> Turns:
    counts, round_seconds = {}, 0.0
    for way, group in groups.items():
        group.client.ask(Open(size))
        for what in OPERATIONS:
            last = group.seconds(Take(FIRST_STEPS, what))[-1]
            counts[way, what] = min(max(int(TURN_SECONDS / last), FEWEST_STEPS), MOST_STEPS)
            round_seconds += last * counts[way, what]
    rounds = min(plan.rounds, max(int(plan.size_seconds / round_seconds), FEWEST_ROUNDS))
    turns: Turns = {what: {way: [] for way in groups} for what in OPERATIONS}
    for number, way in in_turn(list(groups), rounds):
        report(number / rounds)
        for what in (FEED, FETCH):  # the fetch compares its result with what was fed
            turns[what][way].append(groups[way].turn(Take(counts[way, what], what)))
    for group in groups.values():
        group.client.ask(Close())
    return turns


@contextlib.contextmanager
def _groups(plan: FeedPlan, logs: Path) -> Iterator[dict[str, Group]]:
    """Start a server and a client for each way, and end them at the end."""
    forced = {} if plan.fabric is None else {"FARWRITE_FABRICS": plan.fabric}
    with contextlib.ExitStack() as stack:
        groups = {}
        for way in plan.ways:
            transport = WAYS[way]
            environment = {**transport.environment, **forced}
            (address,) = free_addresses(1)
            log = logs / f"{way}-server.log"
            server = stack.enter_context(
                ForkedTask(f"{way} server", "farwrite_bench.cluster.server", environment, log)
            )
            server.send(Seat({"worker": [address]}, "worker", 0, transport, THREADS))
            log = logs / f"{way}-client.log"
            client = stack.enter_context(
                ForkedTask(f"{way} client", "farwrite_bench.feed.client", environment, log)
            )
            client.send(Begin(plan.scheme(way), address))
            groups[way] = Group(client, [server])
        for group in groups.values():
            for task in (*group.servers, group.client):
                task.receive()
        yield groups
