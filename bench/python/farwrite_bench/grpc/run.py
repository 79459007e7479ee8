"""Measures everything in a plan, with the transports in turn."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from farwrite_bench.grpc import connect, qps
from farwrite_bench.grpc.plan import CONNECT, QPS, Case, GrpcPlan, expected_seconds
from farwrite_bench.grpc.process import Payloads
from farwrite_bench.grpc.rows import in_turn, make_row
from farwrite_bench.grpc.transport import MPI, TCP, TRANSPORTS, Transport
from farwrite_bench.grpc.turn import case_row, take_turn
from farwrite_bench.harness.benchmark import Progress
from farwrite_bench.report.parts import Facts, Row

MALLOC = "M_MMAP_THRESHOLD 32 MiB, M_TRIM_THRESHOLD 1 GiB, M_TOP_PAD 64 MiB, in all programs"


def run(plan: GrpcPlan, progress: Progress, logs: Path) -> Facts:
    """Measure everything; the settings name the gRPC that was met."""
    if CONNECT in plan.benchmarks:
        connect.allow_descriptors(plan)
    settings = _settings(plan, logs)
    began, expected = time.monotonic(), expected_seconds(plan)

    def begin(what: str) -> None:
        progress(min((time.monotonic() - began) / expected, 1.0), what)

    rows: list[Row] = []
    for case in plan.cases:

        def take(transport: Transport, case: Case = case) -> Row:
            begin(f"{case.benchmark} {case.payload.scheme} {case.mode} {transport.key}")
            return take_turn(plan, case, transport, logs)

        transports = plan.transports_of(case.benchmark, case.mode)
        skipped = plan.tools.missing.get("openmpi")
        able = [each for each in transports if each.key != MPI or skipped is None]
        failed: dict[str, str] = {}
        turns = in_turn(able, plan.pace.rounds, take, failed)
        rows += (
            case_row(
                case,
                each,
                turns,
                plan.pace.mean,
                skipped=None if each in able else skipped,
                error=failed.get(each.key),
            )
            for each in transports
        )
    if CONNECT in plan.benchmarks:
        rows += connect.rows(plan, begin, logs)
    if QPS in plan.benchmarks and plan.tools.qps is None:
        skipped = plan.tools.missing["qps"]
        rows += (make_row(QPS, each, skipped=skipped) for each in plan.transports_of(QPS))
    elif QPS in plan.benchmarks:
        rows += qps.rows(plan, begin, logs)
    return {"settings": settings, "rows": rows}


def _settings(plan: GrpcPlan, logs: Path) -> dict[str, Any]:
    """Return the choices that the file names, with how gRPC is set up, by transport."""
    command = [str(plan.tools.payloads), json.dumps({"buffers": [1]})]
    program = Payloads(TRANSPORTS[TCP], "the program", command, logs / "version.log")
    with program:
        program.greet()
    return {
        "warm_up_seconds": plan.pace.warm_up,
        "seconds": plan.pace.seconds,
        "rounds": plan.pace.rounds,
        "of_rounds": plan.pace.middle,
        **plan.settings,
        "grpc": {
            transport.key: " ".join(
                (
                    f"gRPC {program.grpc}:",
                    *(f"{name}={value}" for name, value in plan.arguments_of(transport).items()),
                )
            )
            for transport in plan.transports
            if transport.key != MPI
        },
        "malloc": MALLOC,
        "mpi": plan.tools.openmpi.settings() if plan.tools.openmpi else None,
    }
