"""Makes the rows of a case: communication time, and its ratio to stock's.

Communication time is the step minus the identical step in one process, taken in the same round.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from farwrite_bench.cluster.group import Turn, totals
from farwrite_bench.table import times
from farwrite_experiments.rpc_over_fabric import RPC_OVER_FABRIC
from farwrite_experiments.train.plan import ONE_PROCESS, STOCK, Case, Way

CONFIDENCE = 95
CASE = ("model", "mode", "compute", "batch", "servers", "workers", "sync")
"""The keys of a row that name its case."""
IDENTITY = (*CASE, "transport", "fabric")
RESOLUTION_MS = 0.1
"""The shortest communication time that is told from none."""

Row = dict[str, Any]
Figures = npt.NDArray[np.float64]


def make_rows(
    case: Case, ways: Sequence[Way], turns: Mapping[str, Sequence[Turn]], load: float
) -> list[Row]:
    """Make one row for each way, from its turns, round by round."""
    # Of workers that step by themselves, the mean says how many samples they took.
    average = statistics.median if case.sync else statistics.fmean
    steps = {
        key: np.array([1e3 * average(turn.seconds) for turn in of_way])
        for key, of_way in turns.items()
    }
    local, stock = steps[ONE_PROCESS.key], steps.get(STOCK.key)
    return [
        {
            **identity(case, way),
            **_times(case, steps[way.key], local, stock),
            "of_rpc": _less(steps[way.key], local, steps.get(Way(RPC_OVER_FABRIC, way.fabric).key)),
            **counts(turns[way.key]),
            "rounds": len(turns[way.key]),
            "load": round(load, 2),
            "group": [each.key for each in ways],
        }
        for way in ways
    ]


def identity(case: Case, way: Way) -> Row:
    """Return the keys of a row that name its case and its way."""
    of_case = {key: getattr(case, key) for key in CASE}
    return {
        "model": case.model,
        "transport": way.transport.key,
        "fabric": fabric_of(way),
        **of_case,
    }


def gain(mine: Row, theirs: Row) -> float | None:
    """Return the throughput of one row over another's of the same case.

    Rows that were measured in the same rounds are compared as they are; others by what each gains
    over stock gRPC in its own rounds, because hours may lie between them. None if that is unknown.
    """
    if mine["group"] == theirs["group"]:
        pairs = zip(mine["step_ms_rounds"], theirs["step_ms_rounds"], strict=True)
        return float(statistics.median(other / own for own, other in pairs))
    if mine["speedup"] is None or theirs["speedup"] is None:
        return None
    return float(mine["speedup"] / theirs["speedup"])


def least(ratio: Row) -> float:
    """Return the ratio of `times_less`, or the least that is certain."""
    return float(ratio["median"] if ratio["at_least"] is None else ratio["at_least"])


def ratio_text(ratio: Row) -> str:
    """Return the ratio of `times_less` as text, with "at least" before a bound."""
    return ("" if ratio["at_least"] is None else "at least ") + times(least(ratio))


def fabric_of(way: Way) -> str:
    """Return the fabric of a way as rows name it."""
    return way.fabric or ("none" if way.is_local else "tcp")


def _times(case: Case, mine: Figures, local: Figures, stock: Figures | None) -> Row:
    step = float(np.median(mine))
    low, high = interval(mine - local)
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


def times_less(theirs: Figures, mine: Figures) -> dict[str, Any] | None:
    """Return how many times less communication time `mine` has, paired by round.

    Returns
    -------
    dict, optional
        ``median`` of the rounds' ratios, and the ends ``low`` and ``high`` of its interval. If the
        interval of `mine` reaches 0, the ratio has no upper end: ``median`` and ``high`` are None,
        and ``low`` and ``at_least`` are the lower end of `theirs` over the upper end of `mine`, or
        over half of the width of that interval, if this is more; over its distance from 0, if it
        lies below 0, which no communication time does. None if the interval of `theirs` reaches 0.
    """
    if interval(theirs)[0] <= 0:
        return None
    least, most = interval(mine)
    if least <= 0:
        doubt = -least if most < 0 else (most - least) / 2
        bound = round(interval(theirs)[0] / max(most, doubt, RESOLUTION_MS), 3)
        return {"median": None, "low": bound, "high": None, "at_least": bound}
    ratios = np.where(mine > 0, theirs / np.where(mine > 0, mine, 1.0), np.inf)
    low, high = interval(ratios)
    return {
        "median": round(float(np.median(ratios)), 3),
        "low": round(low, 3),
        "high": round(high, 3),
        "at_least": None,
    }


def _less(mine: Figures, local: Figures, theirs: Figures | None) -> dict[str, Any] | None:
    if theirs is None or mine is local or mine is theirs:
        return None
    return times_less(theirs - local, mine - local)


def interval(values: Figures) -> tuple[float, float]:
    """Return the interval that has the median in 95 of 100 cases, by the sign test.

    With fewer than six values it is their range, which has the median less often: two values in 50
    of 100 cases, five in 94.
    """
    ordered, rounds = np.sort(values), len(values)
    # The probabilities of at most 1, 2, ... heads in so many throws of a coin.
    heads = np.cumsum([math.comb(rounds, number) for number in range(rounds)])[1:] / 2.0**rounds
    left_out = int(np.searchsorted(2 * heads, 1 - CONFIDENCE / 100, side="right"))
    return float(ordered[left_out]), float(ordered[-1 - left_out])


def counts(turns: Sequence[Turn]) -> Row:
    """Return what a step of these turns cost, in all processes."""
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
