"""Makes the rows of ``bench step`` from the turns of one kind."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from farwrite_bench.cluster.group import Turn, totals
from farwrite_bench.cluster.readings import control_calls
from farwrite_bench.cluster.transport import GRPC
from farwrite_bench.ratio import ratio_of_rounds
from farwrite_bench.step.plan import WAYS
from farwrite_bench.tensor.plan import LOCAL

Row = dict[str, Any]


def make_rows(kind: str, busy: int, turns: Mapping[str, Sequence[Turn]], load: float) -> list[Row]:
    """Make the row of each way. A ratio is null without the way that it compares with."""
    medians = {
        way: [1e3 * statistics.median(turn.seconds) for turn in of_way]
        for way, of_way in turns.items()
    }
    rows = []
    for way, of_way in turns.items():
        total = totals(of_way)
        steps = sum(len(turn.seconds) for turn in of_way)
        seen = [name for readings in of_way[-1].after for name in readings.fabrics]
        rows.append(
            {
                "kind": kind,
                "way": way,
                "busy": busy,
                "fabric": "none" if way == LOCAL.key else _fabric(way, seen),
                "step_ms": round(statistics.median(medians[way]), 4),
                "mean_ms": round(1e3 * sum(sum(turn.seconds) for turn in of_way) / steps, 4),
                "step_ms_rounds": [round(each, 4) for each in medians[way]],
                "of_grpc": _of(medians, way, GRPC.key),
                "of_local": _of(medians, way, LOCAL.key),
                "cpu_ms": round(1e3 * total["cpu_seconds"] / steps, 4),
                "control": control_calls(total, steps) if WAYS[way].carries_control else None,
                "socket_bytes": round(total["socket_bytes"] / steps, 1),
                "steps": steps,
                "rounds": len(of_way),
                "load": round(load, 2),
            }
        )
    return rows


def _fabric(way: str, seen: Sequence[str]) -> str:
    return "tcp" if WAYS[way].stock else "+".join(sorted(set(seen))) or "unknown"


def _of(medians: Mapping[str, Sequence[float]], way: str, other: str) -> dict[str, float] | None:
    return ratio_of_rounds(medians[way], medians[other]) if other in medians else None
