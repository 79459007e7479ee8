"""Makes rows from steps: medians of paired differences, and their confidence intervals."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from farwrite_bench.cluster.group import totals
from farwrite_bench.cluster.readings import control_calls
from farwrite_bench.cluster.transport import FARWRITE, Transport
from farwrite_bench.cluster.ways import spent_in, steps_of
from farwrite_bench.report.parts import Facts, Row, rows_of
from farwrite_bench.tensor.plan import LOCAL, RAW, Block, Case

RESAMPLES = 2000
CONFIDENCE = 95


def make_row(
    case: Case,
    transport: Transport,
    blocks: Sequence[Block],
    local: Sequence[Block] | None,
    load: float,
    raw: Sequence[Block] | None = None,
) -> Row:
    """Make the row of one transport from its blocks of one case.

    Parameters
    ----------
    local : sequence of Block, optional
        The same case inside one process, round by round, if it was measured. ``vs_local`` is the
        ratio of the steps. ``vs_local_same_control`` first adds to the local step the extra time of
        an empty step of two tasks over one of a single task, because the tensor does not cause it.
    raw : sequence of Block, optional
        The same bytes through a raw socket. ``of_raw`` is the bandwidth as a share of the raw
        socket's: the median over the rounds of the time that the bytes add to the raw socket's step
        divided by the time that the tensor adds here.
    """
    total, steps = totals(blocks), steps_of(blocks)
    last = blocks[-1].after
    counted = any(readings.counters is not None for readings in last)
    row: Row = {
        "transport": transport.key,
        "fabric": fabric(transport, [name for each in last for name in each.fabrics]),
        "consumer": case.consumer,
        "size": case.size,
        "step_ms": round(median_ms([block.seconds for block in blocks]), 4),
        "empty_step_ms": round(median_ms([block.empty for block in blocks]), 4),
        **added(blocks),
        "copies": total.get("copies", 0) / steps if counted else None,
        "grpc_tensor_calls": total.get("grpc_recv_tensor_calls", 0) / steps if counted else None,
        "control": control_calls(total, steps) if transport.carries_control else None,
        "counters": {
            name: value / steps
            for name, value in total.items()
            if value and name not in ("socket_bytes", "cpu_seconds")
        },
        **spent_in(blocks, load),
        "vs_local": None,
        "vs_local_same_control": None,
        "of_raw": None,
        "error": None,
    }
    if local:
        row["vs_local"] = round(_median_ratio(blocks, local, 0.0), 3)
        control = row["empty_step_ms"] / 1e3 - median_ms([block.empty for block in local]) / 1e3
        row["vs_local_same_control"] = round(_median_ratio(blocks, local, control), 3)
    if raw and transport is not RAW:
        shares = [_added(theirs) / _added(ours) for ours, theirs in zip(blocks, raw, strict=False)]
        row["of_raw"] = round(statistics.median(shares), 3)
    return row


def _added(block: Block) -> float:
    """Return the seconds that a tensor adds in this block; above 0, so that it can be a divisor."""
    return max(statistics.median(block.seconds) - statistics.median(block.empty), 1e-9)


def _median_ratio(mine: Sequence[Block], local: Sequence[Block], control: float) -> float:
    """Divide the step by the local step plus `control` seconds, round by round."""
    return statistics.median(
        statistics.median(ours.seconds) / (statistics.median(theirs.seconds) + control)
        for ours, theirs in zip(mine, local, strict=False)
    )


def failed_row(case: Case, transport: Transport, error: str, load: float) -> Row:
    """Make the row of a case that `transport` could not run."""
    nothing = (
        *("step_ms", "empty_step_ms", "added_us", "added_us_ci", "copies", "socket_bytes"),
        *("grpc_tensor_calls", "control", "cpu_ms", "vs_local", "vs_local_same_control", "of_raw"),
    )
    return {
        "transport": transport.key,
        "fabric": fabric(transport, []),
        "consumer": case.consumer,
        "size": case.size,
        **dict.fromkeys(nothing),
        "steps": 0,
        "load": round(load, 2),
        "error": error,
    }


def ratios(facts: Facts, theirs: str, ours: str = FARWRITE.key) -> list[tuple[str, int, float]]:
    """Return how many times less `ours` adds than `theirs`: consumer, size and ratio."""
    added = {
        (row["consumer"], row["size"], row["transport"]): row["added_us"] for row in rows_of(facts)
    }
    return [
        (consumer, size, other / mine)
        for (consumer, size, transport), mine in added.items()
        if transport == ours and mine > 0
        for other in [added.get((consumer, size, theirs))]
        if other is not None and other > 0
    ]


def added(blocks: Sequence[Block]) -> dict[str, Any]:
    """Compare the steps with a tensor with the empty steps of the same turn.

    Returns
    -------
    dict
        ``added_us``, the median of the paired differences, and ``added_us_ci``, its 95 %
        confidence interval. The bootstrap draws whole rounds, because steps of one round are alike.
    """
    differences = [
        1e6 * (np.array(block.seconds) - np.array(block.empty)[: len(block.seconds)])
        for block in blocks
    ]
    random = np.random.default_rng(len(blocks))
    draws = random.integers(len(blocks), size=(RESAMPLES, len(blocks)))
    medians = [np.median(np.concatenate([differences[n] for n in draw])) for draw in draws]
    tail = (100 - CONFIDENCE) / 2
    low, high = np.percentile(medians, [tail, 100 - tail])
    return {
        "added_us": round(float(np.median(np.concatenate(differences))), 1),
        "added_us_ci": [round(float(low), 1), round(float(high), 1)],
    }


def median_ms(parts: Sequence[Sequence[float]]) -> float:
    """Return the median of all seconds, in milliseconds."""
    return 1e3 * statistics.median(value for part in parts for value in part)


def fabric(transport: Transport, seen: Sequence[str]) -> str:
    """Return the name of the fabric that carried the bytes."""
    if transport.key == LOCAL.key:
        return "none"
    if transport.stock:
        return "tcp"  # of gRPC, and of the raw socket
    return "+".join(sorted(set(seen))) or "unknown"
