"""Makes the rows of ``bench feed`` from the turns of one size."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from farwrite_bench.cluster.group import Turn, totals
from farwrite_bench.cluster.transport import GRPC
from farwrite_bench.feed.plan import FEED, WAYS, FeedPlan
from farwrite_bench.ratio import ratio_of_rounds

Row = dict[str, Any]


def make_rows(
    plan: FeedPlan, size: int, turns: Mapping[str, Mapping[str, Sequence[Turn]]], load: float
) -> list[Row]:
    """Make the row of each operation and way.

    ``by_grpc`` counts the tensors that gRPC carried to or from Farwrite's server, a step.
    """
    rows = []
    for operation, by_way in turns.items():
        medians = {
            way: [1e3 * statistics.median(turn.seconds) for turn in of_way]
            for way, of_way in by_way.items()
        }
        for way, of_way in by_way.items():
            total = totals(of_way)
            steps = sum(len(turn.seconds) for turn in of_way)
            carried = total.get("grpc_feeds" if operation == FEED else "grpc_fetches", 0)
            median = statistics.median(medians[way])
            rows.append(
                {
                    "operation": operation,
                    "size": size,
                    "way": way,
                    "target": plan.scheme(way),
                    "ms": round(median, 4),
                    "ms_rounds": [round(each, 4) for each in medians[way]],
                    "gb_s": round(size / median / 1e6, 6),
                    "of_grpc": ratio_of_rounds(medians[way], medians[GRPC.key])
                    if GRPC.key in medians
                    else None,
                    "cpu_ms": round(1e3 * total["cpu_seconds"] / steps, 3),
                    "by_grpc": None if WAYS[way].stock else round(carried / steps, 3),
                    "socket_bytes": round(total["socket_bytes"] / steps, 1),
                    "steps": steps,
                    "rounds": len(of_way),
                    "load": round(load, 2),
                }
            )
    return rows
