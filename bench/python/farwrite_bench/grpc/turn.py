"""A case in which workers call servers: a turn over one transport, and the rows of all turns."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from farwrite.errors import Internal
from farwrite_bench.grpc import mpi
from farwrite_bench.grpc.plan import LATENCY, RECEIVER, SERIALIZED, Case, GrpcPlan, Pace
from farwrite_bench.grpc.process import SERVER, WORKER, Answers, Payloads, end, running
from farwrite_bench.grpc.rows import make_row, set_target
from farwrite_bench.grpc.transport import MPI, TCP, Transport
from farwrite_bench.program import ANSWER_SECONDS
from farwrite_bench.report.parts import Row

MOST_RECEIVER_CPU = 1 / 5
"""The receiver's processor time, as a part of TCP's."""
FIGURES = ("p50_us", "p99_us", "gb_s", "rpc_s", "copies", "cpu_s_per_gb", "server_cpu_s_per_gb")
"""The figures of a turn of which a row has the middle."""


def take_turn(plan: GrpcPlan, case: Case, transport: Transport, logs: Path) -> Row:
    """Measure `case` over `transport` once, in new processes; see `figures`.

    Raises
    ------
    PeerDead
        If a process fails.
    FailedPrecondition
        If Farwrite should have carried the bytes and did not.
    """
    if transport.key == MPI:
        assert plan.tools.openmpi is not None
        return figures(case, *mpi.take_turn(plan.tools.openmpi, case, plan.pace, logs))
    what = f"{case.benchmark}, {case.payload.scheme}, {case.payload.bytes} B, {case.mode}"
    with running(
        *(plan, transport, what, {SERVER: case.servers, WORKER: case.workers}, logs),
        buffers=case.payload.buffers,
        serialized=case.mode == SERIALIZED,
        acknowledge=not case.echo,
        unread=not case.reads,
        reuse=case.reuse,
        server_threads=case.server_threads,
        outstanding=case.outstanding,
    ) as started:
        measured = _measure(started, plan.pace)
        ended = end(started)
        copies = _copies((*started[SERVER], *started[WORKER]), transport)
    return figures(case, measured, ended, copies)


def _measure(started: Mapping[str, Sequence[Payloads]], pace: Pace) -> list[dict[str, Any]]:
    """Let workers call servers, or servers each other if there are no workers."""
    callers = started[WORKER] or started[SERVER]
    addresses = [server.address for server in started[SERVER]]
    for caller in callers:
        caller.order("connect", *(each for each in addresses if each != caller.address))
    for caller in callers:
        caller.answer()
    _call(callers, pace.warm_up)
    # Processor time is counted from here, without what the first calls allocate.
    for process in (*started[SERVER], *started[WORKER]):
        process.ask("start")
    return _call(callers, pace.seconds)


def _call(callers: Sequence[Payloads], seconds: float) -> list[dict[str, Any]]:
    for caller in callers:
        caller.order("measure", 0, seconds)
    return [caller.answer(seconds + ANSWER_SECONDS) for caller in callers]


def _copies(processes: Iterable[Payloads], transport: Transport) -> float | None:
    """Return how often Farwrite copied a byte that gRPC sent; None where nothing counts that."""
    if not transport.is_farwrite:
        return None
    counters = [process.counters() for process in processes]
    copied = sum(each.copied_bytes(transport.maps_peers) for each in counters)
    return copied / sum(each.sent_bytes for each in counters)


def figures(
    case: Case, measured: list[dict[str, Any]], ended: Answers, copies: float | None = None
) -> Row:
    """Turn the answers of the callers and of all processes into the figures of a turn.

    The times of a call are the slowest caller's. Rates are those of all callers together, with the
    payloads of both directions. Processor seconds are for 10^9 bytes of payloads.
    """
    everybody = [answer for answers in ended.values() for answer in answers]
    if any(answer["wrong"] for answer in everybody):
        raise Internal("bench grpc: a server received a damaged payload; report this")
    rate = sum(answer["calls"] / answer["seconds"] for answer in measured)
    gigabytes = sum(answer["calls"] for answer in everybody) * case.bytes_of_call / 1e9

    def cpu_s_per_gb(answers: list[dict[str, Any]]) -> float:
        return float(sum(answer["cpu_seconds"] for answer in answers) / gigabytes)

    return {
        "p50_us": max(answer["p50_us"] for answer in measured),
        "p99_us": max(answer["p99_us"] for answer in measured),
        "rpc_s": rate,
        "gb_s": rate * case.bytes_of_call / 1e9,
        "copies": copies,
        "cpu_s_per_gb": cpu_s_per_gb(everybody),
        "server_cpu_s_per_gb": cpu_s_per_gb(ended[SERVER]),
        "peak_bytes": {
            role: max(answer["peak_bytes"] for answer in answers)
            for role, answers in ended.items()
            if answers
        },
    }


def case_row(
    case: Case,
    transport: Transport,
    turns: Mapping[str, Sequence[Row]],
    mean: bool = False,
    skipped: str | None = None,
    error: str | None = None,
) -> Row:
    """Make the row of `transport` from the turns of all transports, by their keys."""
    row = make_row(
        case.benchmark,
        transport,
        skipped=skipped,
        error=error,
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
    middle: Callable[[Iterable[float]], float] = statistics.fmean if mean else statistics.median
    for name in FIGURES:
        values = [turn[name] for turn in mine]
        row[name] = None if None in values else middle(values)
    row["peak_bytes"] = {
        role: max(turn["peak_bytes"][role] for turn in mine) for role in mine[0]["peak_bytes"]
    }
    row["rounds"] = [{name: turn[name] for name in ("p50_us", "gb_s", "rpc_s")} for turn in mine]
    if TCP not in turns:
        return row

    def beside_tcp(name: str) -> list[float]:
        """Divide round by round."""
        return [one[name] / base[name] for one, base in zip(mine, turns[TCP], strict=True)]

    if case.benchmark == LATENCY:
        row["ratio_to_tcp"] = middle(1 / ratio for ratio in beside_tcp("p50_us"))
    else:
        row["ratio_to_tcp"] = middle(beside_tcp("rpc_s"))
    if case.benchmark == RECEIVER:
        row["server_cpu_of_tcp"] = middle(beside_tcp("server_cpu_s_per_gb"))
        if not case.reads:  # reading costs both the same
            met = row["server_cpu_of_tcp"] <= MOST_RECEIVER_CPU
            set_target(row, f"<= {MOST_RECEIVER_CPU:g} of tcp's", met)
    return row
