"""Makes the rows of a case: communication time, and its ratio to stock's.

Communication time is the step less the identical step in one process, taken in the same round.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from farwrite_bench.cluster.group import Turn, totals
from farwrite_bench.cluster.transport import RPC_OVER_FABRIC
from farwrite_bench.train.plan import FABRICS, ONE_PROCESS, STOCK, Case, Way

RESAMPLES = 2000
CONFIDENCE = 95
CASE = ("model", "mode", "compute", "batch", "servers", "workers", "sync")
"""The keys of a row that name its case."""
RESOLUTION_MS = 0.1
"""The shortest communication time that is told from none."""

Row = dict[str, Any]
Figures = npt.NDArray[np.float64]


def make_rows(
    case: Case, ways: Sequence[Way], turns: Mapping[str, Sequence[Turn]], load: float
) -> list[Row]:
    """Make one row for each way, from its turns, round by round."""
    steps = {
        key: np.array([1e3 * statistics.median(turn.seconds) for turn in of_way])
        for key, of_way in turns.items()
    }
    local = steps[ONE_PROCESS.key]
    stock = steps.get(STOCK.key)
    rpc = {fabric: steps.get(Way(RPC_OVER_FABRIC, fabric).key) for fabric in FABRICS}
    return [
        {
            "model": case.model,
            "transport": way.transport.key,
            "fabric": fabric_of(way),
            "mode": case.mode,
            "compute": case.compute,
            "batch": case.batch,
            "servers": case.servers,
            "workers": case.workers,
            "sync": case.sync,
            **_times(case, steps[way.key], local, stock),
            "of_rpc": _less(steps[way.key], local, rpc.get(way.fabric or "")),
            **_counts(turns[way.key]),
            "rounds": len(turns[way.key]),
            "load": round(load, 2),
        }
        for way in ways
    ]


def fabric_of(way: Way) -> str:
    """Return the fabric of a way as rows name it."""
    return way.fabric or ("none" if way.is_local else "tcp")


def _times(case: Case, mine: Figures, local: Figures, stock: Figures | None) -> Row:
    step = float(np.median(mine))
    low, high = _interval(mine - local)
    return {
        "step_ms": round(step, 3),
        "step_ms_rounds": [round(float(each), 3) for each in mine],
        "compute_ms": case.compute_ms,
        "comm_ms": round(float(np.median(mine - local)), 3),
        "comm_ms_ci": [round(low, 3), round(high, 3)],
        "samples_s": round(1e3 * case.samples / step, 3),
        "of_grpc": _less(mine, local, stock),
        "speedup": None if stock is None else round(float(np.median(stock / mine)), 3),
    }


def _less(mine: Figures, local: Figures, theirs: Figures | None) -> dict[str, Any] | None:
    if theirs is None or mine is local:
        return None
    return times_less(theirs - local, mine - local)


def times_less(theirs: Figures, mine: Figures) -> dict[str, Any]:
    """Return how many times less communication time `mine` has, paired by round.

    Returns
    -------
    dict
        ``median``, and the ends ``low`` and ``high`` of the 95 % interval. If the interval of
        `mine` reaches 0, the ratio has no upper end: ``high`` is None, and the others are
        ``at_least``, the lowest value of `theirs` over the highest of `mine`, or over half of that
        interval's width, if this is more.
    """
    least, most = _interval(mine)
    if least <= 0:
        bound = round(_interval(theirs)[0] / max(most, (most - least) / 2, RESOLUTION_MS), 3)
        return {"median": bound, "low": bound, "high": None, "at_least": bound}
    draws = _draws(len(mine))
    ratios = np.median(theirs[draws], axis=1) / np.median(mine[draws], axis=1)
    tail = (100 - CONFIDENCE) / 2
    low, high = np.percentile(ratios, [tail, 100 - tail])
    return {
        "median": round(float(np.median(theirs) / np.median(mine)), 3),
        "low": round(float(low), 3),
        "high": round(float(high), 3),
        "at_least": None,
    }


def _interval(values: Figures) -> tuple[float, float]:
    """Return the 95 % interval of the median, by a bootstrap over rounds."""
    medians = np.median(values[_draws(len(values))], axis=1)
    tail = (100 - CONFIDENCE) / 2
    low, high = np.percentile(medians, [tail, 100 - tail])
    return float(low), float(high)


def _draws(rounds: int) -> npt.NDArray[np.int64]:
    return np.random.default_rng(rounds).integers(rounds, size=(RESAMPLES, rounds))


def _counts(turns: Sequence[Turn]) -> Row:
    total = totals(turns)
    steps = sum(len(turn.seconds) for turn in turns)
    counted = any(readings.counters is not None for readings in turns[-1].after)

    def a_step(*names: str) -> float | None:
        return round(sum(total.get(name, 0) for name in names) / steps, 3) if counted else None

    return {
        "copies_per_step": a_step("copies"),
        "registrations_per_step": a_step("registrations"),
        "requests_per_step": a_step("requests", "grpc_recv_tensor_calls"),
        "tensor_bytes_per_step": a_step("bytes_pushed"),
        "copy_on_write_per_step": a_step("copy_on_write"),
        "socket_bytes_per_step": round(total["socket_bytes"] / steps, 1),
        "cpu_s_per_step": round(total["cpu_seconds"] / steps, 4),
    }
