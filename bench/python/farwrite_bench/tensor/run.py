"""Measures every case. The transports take turns, with the tensor and without it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from farwrite.units import format_size
from farwrite_bench.harness.benchmark import Progress
from farwrite_bench.report.parts import Row
from farwrite_bench.tensor.cluster import Bench, RefusedError, bench
from farwrite_bench.tensor.graph import OpenCase
from farwrite_bench.tensor.plan import (
    FEWEST_ROUNDS,
    FEWEST_STEPS,
    MOST_STEPS,
    RAW,
    TURN_SECONDS,
    Block,
    Case,
    TensorPlan,
)
from farwrite_bench.tensor.raw import RawCase
from farwrite_bench.tensor.rows import failed_row, make_row

WARM_UP_STEPS = 2
"""Steps before each block, which are not measured."""


def run(plan: TensorPlan, progress: Progress, logs: Path) -> list[Row]:
    """Measure everything in `plan`; the children's output goes to `logs`.

    Raises
    ------
    PeerDead
        If a process fails.
    """
    rows: list[Row] = []
    progress(0.0, "starting processes")
    with bench(plan.transports, logs, plan.fabric) as processes:
        for number, case in enumerate(plan.cases):
            label = f"{case.consumer} {format_size(case.size)}"

            def report(share: float, before: int = number, label: str = label) -> None:
                progress((before + share) / len(plan.cases), label)

            report(0.0)
            rows += _measure(plan, processes, case, report)
    return rows


def _measure(
    plan: TensorPlan, processes: Bench, case: Case, report: Callable[[float], None]
) -> list[Row]:
    ways = {each.key: each for each in plan.transports if case.includes(each)}
    keys = list(ways)
    load = os.getloadavg()[0]
    errors: dict[str, str] = {}
    blocks: dict[str, list[Block]] = {key: [] for key in keys}
    step_seconds: dict[str, float] = {}
    opened = []
    for key in keys:
        try:
            graph = RawCase if key == RAW.key else plan.graphs.get(case.consumer, OpenCase)
            processes.call("open", key, case, graph)
            opened.append(key)
            step_seconds[key] = min(processes.call("take", key, False, WARM_UP_STEPS + 1))
        except RefusedError as refusal:
            errors[key] = str(refusal)
    rounds, counts = _rounds(plan, step_seconds)
    for number in range(rounds):
        report(number / rounds)
        running = [key for key in keys if key not in errors]
        turn = number % len(running) if running else 0
        for key in running[turn:] + running[:turn]:
            try:
                blocks[key].append(block(processes, key, counts[key], number % 2 == 0))
            except RefusedError as refusal:
                errors[key] = str(refusal)
    for key in opened:
        processes.call("close", key)
    local, raw = blocks.get("local"), blocks.get("raw")
    return [
        failed_row(case, way, errors[key], load)
        if key in errors
        else make_row(case, way, blocks[key], local, load, raw)
        for key, way in ways.items()
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


def block(processes: Bench, key: str, count: int, empty_first: bool) -> Block:
    """Take one turn of `count` steps with the tensor and as many without."""

    def without() -> list[float]:
        seconds: list[float] = processes.call("take", key, True, WARM_UP_STEPS + count)
        return seconds[WARM_UP_STEPS:]

    empty = without() if empty_first else []
    processes.call("take", key, False, WARM_UP_STEPS)
    before = processes.look(key)
    full = processes.call("take", key, False, count)
    after = processes.look(key)
    return Block(empty or without(), full, before, after)
