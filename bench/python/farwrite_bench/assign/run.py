"""Measures every size. In each round each way has one turn of some steps."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from farwrite.errors import FailedPrecondition
from farwrite_bench.assign.plan import ASSIGN, WAYS, AssignPlan, in_megabytes
from farwrite_bench.assign.rows import Row, make_rows
from farwrite_bench.tensor.cluster import Bench, bench
from farwrite_bench.tensor.plan import Block, Case, Close, Open
from farwrite_bench.tensor.run import RefusedError, block, order


def run(plan: AssignPlan, progress: Callable[[float, str], None], logs: Path) -> list[Row]:
    """Measure everything in `plan`; the children's output goes to `logs`.

    Raises
    ------
    PeerDead
        If a process fails.
    FailedPrecondition
        If TensorFlow refuses a step, or Farwrite did not move every vector.
    """
    rows: list[Row] = []
    progress(0.0, "starting processes")
    with bench(tuple(WAYS), logs, plan.fabric) as processes:
        for number, size in enumerate(plan.sizes):
            progress(number / len(plan.sizes), in_megabytes(size))
            load = os.getloadavg()[0]
            rows += make_rows(size, _blocks(plan, processes, Case(ASSIGN, size)), load)
    return rows


def _blocks(plan: AssignPlan, processes: Bench, case: Case) -> dict[str, list[Block]]:
    """Return each way's turns at one size."""
    blocks: dict[str, list[Block]] = {key: [] for key in WAYS}
    keys = list(WAYS)
    key = keys[0]
    try:
        for key in keys:
            order(processes, Open(key, case))
        for number in range(plan.rounds):
            first = number % len(keys)
            for key in keys[first:] + keys[:first]:
                blocks[key].append(block(processes, key, plan.steps, number % 2 == 0))
        for key in keys:
            order(processes, Close(key))
    except RefusedError as refusal:
        raise FailedPrecondition(
            f"bench assign: {in_megabytes(case.size)} over {WAYS[key].name}: {refusal}"
        ) from refusal
    return blocks
