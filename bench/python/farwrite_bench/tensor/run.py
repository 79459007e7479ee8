"""Measures every case. The transports take turns, with the tensor and without it.

Each transport has two servers, one process has one, and each has a client of stock TensorFlow.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace
from operator import methodcaller
from pathlib import Path
from typing import Any

from farwrite.units import format_size
from farwrite_bench.cluster import ways
from farwrite_bench.cluster.group import Group, RefusedError, Take, in_turn
from farwrite_bench.cluster.transport import GRPC, Transport
from farwrite_bench.harness.benchmark import Progress, stage
from farwrite_bench.report.parts import Row
from farwrite_bench.tensor import raw
from farwrite_bench.tensor.graph import OpenCase
from farwrite_bench.tensor.plan import LOCAL, RAW, Block, Case, Graph, TensorPlan
from farwrite_bench.tensor.rows import failed_row, make_row

FEWEST_ROUNDS = 5
TURN_SECONDS = 0.04
"""Time of the steps with a tensor. In a short turn other load affects both kinds alike."""
MOST_STEPS = 20
FEWEST_STEPS = 2
WARM_UP_STEPS = 2
"""Steps before each block, which are not measured."""
FULL, EMPTY = "full", "empty"
"""Steps with the tensor, and those without it."""


class Client:
    """What a client runs: the graph of one case after the other.

    Parameters
    ----------
    tf : module
        TensorFlow.
    transport : str
        Key of the transport.
    target : str
        The consumer's server.

    Raises
    ------
    RefusedError
        From its methods, where TensorFlow raises an error.
    """

    def __init__(self, tf: Any, transport: str, target: str) -> None:
        self._tf, self._transport, self._target = tf, transport, target

    def open(self, case: Case, graph: type[Graph], number: int) -> None:
        """Make the graph and the variable of a case, and check one step."""
        with self._refusing():
            self._opened = graph(self._tf, self._transport, self._target, case, number)

    def take(self, count: int, what: str) -> list[float]:
        """Run steps of the open case, or empty ones, and return the seconds of each."""
        with self._refusing():
            return self._opened.take(what == EMPTY, count)

    def close(self) -> None:
        """Free the memory of the open case."""
        self._opened.close()

    @contextlib.contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except self._tf.errors.OpError as error:
            raise RefusedError(f"{type(error).__name__}: {error.message}") from error


def run(plan: TensorPlan, progress: Progress, logs: Path) -> list[Row]:
    """Measure everything in `plan`; the children's output goes to `logs`."""
    rows: list[Row] = []
    progress(0.0, "starting processes")
    processes = {each.key: _way(each) for each in plan.transports}
    with ways.started(processes, plan.fabric, logs) as running:
        for number, case in enumerate(plan.cases):
            label = f"{case.consumer} {format_size(case.size)}"
            report = stage(progress, number, len(plan.cases), label)
            rows += _measure(plan, running, case, number + 1, report)
    return rows


def _way(transport: Transport) -> ways.Way:
    jobs = ("worker",) if transport in (LOCAL, RAW) else ("ps", "worker")
    cluster = ways.addresses(*jobs)
    arguments = (transport.key, f"grpc://{cluster['worker'][0]}")
    way = ways.Way(transport, cluster, jobs, Client, arguments, GRPC)
    return replace(way, server=raw.__name__) if transport is RAW else way


def _measure(
    plan: TensorPlan, running: ways.Running, case: Case, number: int, report: Progress
) -> list[Row]:
    """Measure a case; the elements of its tensors have the value `number`."""
    measured = {each.key: each for each in plan.transports if case.includes(each)}
    load = os.getloadavg()[0]
    groups = running.groups
    errors = {key: why for key, why in running.failed.items() if key in measured}
    blocks: dict[str, list[Block]] = {key: [] for key in measured}
    step_seconds: dict[str, float] = {}
    opened = []

    @contextlib.contextmanager
    def trying(key: str) -> Iterator[None]:
        """Note a failure, which ends the way, or a refusal, after which its client goes on."""
        with running.trying(key):
            try:
                yield
            except RefusedError as refusal:
                errors[key] = str(refusal)
        if key in running.failed:
            errors[key] = running.failed[key]

    report(0.0)
    for key in measured:
        if key not in errors:
            with trying(key):
                graph = raw.RawCase if key == RAW.key else plan.graphs.get(case.consumer, OpenCase)
                groups[key].ask(methodcaller("open", case, graph, number))
                opened.append(key)
                step_seconds[key] = min(groups[key].seconds(Take(WARM_UP_STEPS + 1, FULL)))
    rounds, counts = _rounds(plan, step_seconds)
    for turn, key in in_turn([*measured], rounds):
        report(turn / rounds)
        if key not in errors:
            with trying(key):
                blocks[key].append(block(groups[key], counts[key], turn % 2 == 0))
    for key in opened:
        if key in groups:
            with trying(key):
                groups[key].ask(methodcaller("close"))
    local, of_raw = (None if each.key in errors else blocks.get(each.key) for each in (LOCAL, RAW))
    return [
        failed_row(case, way, errors[key], load)
        if key in errors
        else make_row(case, way, blocks[key], local, load, of_raw)
        for key, way in measured.items()
    ]


def _rounds(plan: TensorPlan, step_seconds: dict[str, float]) -> tuple[int, dict[str, int]]:
    """Choose how many rounds to run, and how many steps each transport takes in its turn."""
    counts = {
        key: min(max(int(TURN_SECONDS / seconds), FEWEST_STEPS), MOST_STEPS)
        for key, seconds in step_seconds.items()
    }
    round_seconds = sum((WARM_UP_STEPS + counts[key]) * s for key, s in step_seconds.items())
    affordable = int(plan.case_seconds / max(round_seconds, 1e-6))
    return min(plan.rounds, max(affordable, FEWEST_ROUNDS)), counts


def block(group: Group, count: int, empty_first: bool) -> Block:
    """Take one turn of `count` steps with the tensor and as many without."""

    def without() -> list[float]:
        return group.seconds(Take(WARM_UP_STEPS + count, EMPTY))[WARM_UP_STEPS:]

    empty = without() if empty_first else []
    group.seconds(Take(WARM_UP_STEPS, FULL))
    turn = group.turn(Take(count, FULL))
    return Block(turn.seconds, turn.before, turn.after, empty=empty or without())
