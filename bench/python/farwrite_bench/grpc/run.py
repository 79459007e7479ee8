"""Measures every case of a plan, one transport after the other in each round."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from farwrite_bench.grpc import mpi
from farwrite_bench.grpc.connect import ConnectBenchmark
from farwrite_bench.grpc.plan import NON_SERIALIZED, QPS, Case, GrpcPlan, expected_seconds
from farwrite_bench.grpc.qps import QpsBenchmark
from farwrite_bench.grpc.rows import empty_row, make_row
from farwrite_bench.grpc.transport import MPI, Transport
from farwrite_bench.grpc.turn import Begin, Turn, take_turn
from farwrite_bench.harness.benchmark import Progress
from farwrite_bench.report.parts import Facts, Row

MALLOC = "M_MMAP_THRESHOLD 32 MiB, M_TRIM_THRESHOLD 1 GiB, M_TOP_PAD 64 MiB, in all programs"


def run(plan: GrpcPlan, progress: Progress, logs: Path) -> Facts:
    """Measure everything in `plan`; the settings name the gRPC that was met."""
    begin = _by_seconds(progress, expected_seconds(plan))
    rows: list[Row] = []
    version = ""
    for case in plan.cases:
        transports = plan.transports_of(case.benchmark, case.mode)
        turns = _take_turns(plan, case, transports, begin, logs)
        for transport in transports:
            why = None if transport.key in turns else plan.tools.no_openmpi
            rows.append(make_row(case, transport, turns, plan.pace.mean, why))
        version = next((one.grpc for of in turns.values() for one in of if one.grpc), version)
    if plan.connect is not None:
        connect = ConnectBenchmark(plan, plan.connect, plan.tools.payloads, logs)
        rows += connect.rows(begin)
        version = connect.grpc or version
    if plan.qps is not None and plan.tools.qps is not None:
        rows += QpsBenchmark(plan, plan.qps, plan.tools.qps, logs).rows(begin)
    elif plan.qps is not None:
        transports = plan.transports_of(QPS, NON_SERIALIZED)
        rows += [empty_row(QPS, transport, plan.tools.no_qps) for transport in transports]
    return {"settings": _settings(plan, version), "rows": rows}


def _take_turns(
    plan: GrpcPlan, case: Case, transports: list[Transport], begin: Begin, logs: Path
) -> dict[str, list[Turn]]:
    turns: dict[str, list[Turn]] = {}
    for _ in range(plan.pace.rounds):
        for transport in transports:
            what = f"{case.benchmark} {case.payload.scheme} {case.mode} {transport.key}"
            begin(what, plan.seconds_of_turn(case, transport))
            if transport.key != MPI:
                turn = take_turn(plan.tools.payloads, case, transport, plan, logs)
            elif plan.tools.openmpi is not None:
                turn = mpi.take_turn(plan.tools.openmpi, case, plan.pace, logs)
            else:
                continue
            turns.setdefault(transport.key, []).append(turn)
    return turns


def _by_seconds(progress: Progress, total: float) -> Begin:
    """Show progress by the seconds that the turns are expected to take."""
    done = 0.0

    def begin(what: str, seconds: float) -> None:
        nonlocal done
        progress(min(done / total, 1.0), what)
        done += seconds

    return begin


def _settings(plan: GrpcPlan, version: str) -> dict[str, Any]:
    """Return the choices that the file names, with how gRPC is set up, by transport."""
    return {
        "warm_up_seconds": plan.pace.warm_up,
        "seconds": plan.pace.seconds,
        "rounds": plan.pace.rounds,
        "of_rounds": plan.pace.middle,
        **plan.settings,
        "grpc": {
            transport.key: " ".join(
                (
                    f"gRPC {version}:",
                    *(f"{name}={value}" for name, value in plan.arguments_of(transport).items()),
                )
            )
            for transport in plan.transports
            if transport.key != MPI
        },
        "malloc": MALLOC,
        "mpi": plan.tools.openmpi.settings() if plan.tools.openmpi else None,
    }
