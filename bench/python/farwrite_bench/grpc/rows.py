"""The rows of the result, from the turns of all rounds, and the targets of Farwrite beside TCP."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from farwrite_bench.grpc.plan import LATENCY, RECEIVER, Case
from farwrite_bench.grpc.transport import OVER_SHM, TCP, Transport
from farwrite_bench.grpc.turn import Turn
from farwrite_bench.report.parts import Facts, Row, rows_of

FIELDS = (
    "benchmark",
    "transport",
    "scheme",
    "mode",
    "size",
    "p50_us",
    "p99_us",
    "gb_s",
    "rpc_s",
    "copies",
    "cpu_s_per_gb",
    "server_cpu_s_per_gb",
    "peak_bytes",
    "ratio_to_tcp",
    "target",
    "target_met",
    "rounds",
    "skipped",
)
"""What every row has; figures that nothing measured are None."""
MOST_CONNECT_TIME = 1.1
"""A connection's time, as a multiple of TCP's."""
MOST_IDLE_BYTES = 64 << 10
"""An idle connection's memory on each side, above TCP's."""
MOST_RECEIVER_CPU = 1 / 5
"""The receiver's processor time, as a part of TCP's."""
QPS_NOISE = 0.95
"""A rate this near to TCP's counts as TCP's, if a round was at or above it."""

RECEIVER_TARGET = f"<= {MOST_RECEIVER_CPU:g} of tcp's"


def empty_row(benchmark: str, transport: Transport, skipped: str | None = None) -> Row:
    """Make a row without figures."""
    row: Row = dict.fromkeys(FIELDS)
    row.update(benchmark=benchmark, transport=transport.key, skipped=skipped)
    return row


def set_target(row: Row, target: str, met: bool) -> None:
    """Add the target of a row of Farwrite over shared memory; other rows have none."""
    if row["transport"] == OVER_SHM:
        row.update(target=target, target_met=met)


def is_as_fast(ratio: float, rounds: Sequence[float]) -> bool:
    """Tell whether a rate is at least TCP's, or below by no more than noise."""
    return ratio >= 1 or (ratio >= QPS_NOISE and max(rounds) >= 1)


def compared(facts: Facts) -> list[Row]:
    """Return the rows of Farwrite that are compared with TCP."""
    return [
        row
        for row in rows_of(facts)
        if row["transport"].startswith("farwrite-") and row["ratio_to_tcp"] is not None
    ]


def make_row(
    case: Case, transport: Transport, turns: dict[str, list[Turn]], mean: bool, skipped: str | None
) -> Row:
    """Make the row of `transport` from the turns of all transports, by their keys."""
    row = empty_row(case.benchmark, transport, skipped)
    row.update(
        scheme=case.payload.scheme,
        mode=case.mode,
        size=case.payload.bytes,
        buffers=list(case.payload.buffers),
        servers=case.servers,
        workers=case.workers,
        outstanding=case.outstanding,
        reads=case.reads,
    )
    mine = turns.get(transport.key)
    if not mine:
        return row
    middle: Callable[[Sequence[float]], float] = statistics.fmean if mean else statistics.median
    for name in ("p50_us", "p99_us", "gb_s", "rpc_s", "cpu_s_per_gb", "server_cpu_s_per_gb"):
        row[name] = middle([getattr(turn, name) for turn in mine])
    row["copies"] = None if mine[0].copies is None else middle([_copies(turn) for turn in mine])
    row["peak_bytes"] = {
        role: max(turn.peak_bytes[role] for turn in mine) for role in mine[0].peak_bytes
    }
    row["rounds"] = [
        {"p50_us": turn.p50_us, "gb_s": turn.gb_s, "rpc_s": turn.rpc_s} for turn in mine
    ]
    tcp = turns.get(TCP)
    if tcp:
        row["ratio_to_tcp"] = middle(
            [_gain(case, one, base) for one, base in zip(mine, tcp, strict=True)]
        )
        if case.benchmark == RECEIVER:
            row["server_cpu_of_tcp"] = of_tcp = middle(
                [
                    one.server_cpu_s_per_gb / base.server_cpu_s_per_gb
                    for one, base in zip(mine, tcp, strict=True)
                ]
            )
            if not case.reads:  # reading costs both the same
                set_target(row, RECEIVER_TARGET, of_tcp <= MOST_RECEIVER_CPU)
    return row


def _copies(turn: Turn) -> float:
    assert turn.copies is not None
    return turn.copies


def _gain(case: Case, turn: Turn, base: Turn) -> float:
    """Return how many times better than `base` the turn of the same round is."""
    if case.benchmark == LATENCY:
        return base.p50_us / turn.p50_us
    return turn.rpc_s / base.rpc_s
