"""What Farwrite over shared memory should reach beside TCP, and whether a row does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from farwrite_bench.grpc.transport import OVER_SHM

Row = dict[str, Any]
MOST_CONNECT_TIME = 1.1
"""A connection's time, as a multiple of TCP's."""
MOST_IDLE_BYTES = 64 << 10
"""An idle connection's memory on each side, above TCP's."""
MOST_RECEIVER_CPU = 1 / 5
"""The receiver's processor time, as a part of TCP's."""
QPS_NOISE = 0.95
"""A rate this near to TCP's counts as TCP's, if a round was at or above it."""


def set_target(row: Row, target: str, met: bool) -> None:
    """Add the target of a row of Farwrite over shared memory; other rows have none."""
    if row["transport"] == OVER_SHM:
        row.update(target=target, target_met=met)


def is_as_fast(ratio: float, rounds: Sequence[float]) -> bool:
    """Tell whether a rate is at least TCP's, or below by no more than noise."""
    return ratio >= 1 or (ratio >= QPS_NOISE and max(rounds) >= 1)
