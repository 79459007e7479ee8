"""The rows of the result, from the turns of all rounds."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from farwrite_bench.grpc.plan import LATENCY, RECEIVER, Case
from farwrite_bench.grpc.targets import MOST_RECEIVER_CPU, Row, set_target
from farwrite_bench.grpc.transport import TCP, Transport
from farwrite_bench.grpc.turn import Turn

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
RECEIVER_TARGET = f"<= {MOST_RECEIVER_CPU:g} of tcp's"


def empty_row(benchmark: str, transport: Transport, skipped: str | None = None) -> Row:
    """Make a row without figures."""
    row: Row = dict.fromkeys(FIELDS)
    row.update(benchmark=benchmark, transport=transport.key, skipped=skipped)
    return row


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
