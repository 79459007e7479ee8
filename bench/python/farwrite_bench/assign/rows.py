"""Makes rows from turns: rates, ratios, and proof that Farwrite moved the vectors."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from farwrite.errors import FailedPrecondition
from farwrite_bench.assign.plan import WAYS, in_megabytes
from farwrite_bench.cluster.readings import spent
from farwrite_bench.cluster.transport import FARWRITE, GRPC
from farwrite_bench.ratio import ratio_of_rounds
from farwrite_bench.tensor.plan import LOCAL, Block
from farwrite_bench.tensor.rows import fabric, median_ms

MOVED = ("pushes_alias", "pushes_landed")
"""Counters of vectors that Farwrite moved: lent to the receiver, or written into its memory."""

Row = dict[str, Any]


def make_rows(size: int, blocks: Mapping[str, Sequence[Block]], load: float) -> list[Row]:
    """Make the row of each way from its turns at one size.

    Raises
    ------
    FailedPrecondition
        If Farwrite did not move every vector.
    """
    rates = {key: [_rate(size, block) for block in turns] for key, turns in blocks.items()}
    return [_row(size, key, turns, rates, load) for key, turns in blocks.items()]


def _row(
    size: int,
    key: str,
    turns: Sequence[Block],
    rates: Mapping[str, Sequence[float]],
    load: float,
) -> Row:
    totals = [spent(block.before, block.after) for block in turns]
    total = {name: sum(each.get(name, 0) for each in totals) for name in set().union(*totals)}
    steps = sum(len(block.full) for block in turns)
    ours = not WAYS[key].stock
    if ours:
        require_moved(size, steps, total)
    last = turns[-1].after
    return {
        "way": key,
        "fabric": fabric(key, [name for each in last for name in each.fabrics]),
        "size": size,
        "gb_s": round(statistics.median(rates[key]), 3),
        "gb_s_rounds": [round(rate, 3) for rate in rates[key]],
        "times_grpc": ratio_of_rounds(rates[key], rates[GRPC.key]),
        "of_local": ratio_of_rounds(rates[key], rates[LOCAL.key]),
        "step_ms": round(median_ms([block.full for block in turns]), 4),
        "empty_step_ms": round(median_ms([block.empty for block in turns]), 4),
        "cpu_ms": round(1e3 * total["cpu_seconds"] / steps, 3),
        "tensors": sum(total.get(name, 0) for name in MOVED) / steps if ours else None,
        "grpc_tensor_calls": total.get("grpc_recv_tensor_calls", 0) / steps if ours else None,
        "copies": total.get("copies", 0) / steps if ours else None,
        "socket_bytes": round(total["socket_bytes"] / steps, 1),
        "steps": steps,
        "rounds": len(turns),
        "load": round(load, 2),
    }


def require_moved(size: int, steps: int, total: Mapping[str, float]) -> None:
    """Check the counters of the steps over Farwrite.

    Raises
    ------
    FailedPrecondition
        If the plug-in moved fewer vectors than there were steps, or gRPC moved one.
    """
    moved = sum(total.get(name, 0) for name in MOVED)
    calls = total.get("grpc_recv_tensor_calls", 0)
    if moved >= steps and total.get("bytes_pushed", 0) >= steps * size and calls == 0:
        return
    reasons = ", ".join(
        f"{name} {value:g}" for name, value in sorted(total.items()) if "pulls_" in name and value
    )
    raise FailedPrecondition(
        f"bench assign: in {steps} steps with {in_megabytes(size)} Farwrite moved {moved:g} vectors"
        f" and gRPC moved {calls:g} ({reasons or 'no pull was counted'}), so the figures would not"
        " be Farwrite's; docs/reference/tensorflow.md explains the counters"
    )


def sentences(rows: Sequence[Row]) -> list[str]:
    """Return one sentence for each size."""
    gb_s = {(row["size"], row["way"]): row["gb_s"] for row in rows}
    return [
        f"{in_megabytes(row['size'])}: {row['gb_s']:.3g} GB/s over Farwrite,"
        f" {row['times_grpc']['median']:.3g} times the {gb_s[row['size'], GRPC.key]:.3g} GB/s over"
        f" stock gRPC, and {row['of_local']['median']:.2g} of the"
        f" {gb_s[row['size'], LOCAL.key]:.3g} GB/s in one process"
        for row in rows
        if row["way"] == FARWRITE.key
    ]


def _rate(size: int, block: Block) -> float:
    """Return the rate of one turn, in GB/s."""
    return size * len(block.full) / sum(block.full) / 1e9
