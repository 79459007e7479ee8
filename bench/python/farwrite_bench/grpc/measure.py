"""Measures every case of a plan, one transport after the other in each round."""

from __future__ import annotations

from pathlib import Path

from farwrite_bench.grpc import mpi
from farwrite_bench.grpc.connect import ConnectBenchmark
from farwrite_bench.grpc.plan import NON_SERIALIZED, QPS, Case, GrpcPlan, expected_seconds
from farwrite_bench.grpc.progress import Progress
from farwrite_bench.grpc.qps import QpsBenchmark
from farwrite_bench.grpc.rows import empty_row, make_row
from farwrite_bench.grpc.targets import Row
from farwrite_bench.grpc.tools import Tools
from farwrite_bench.grpc.transport import MPI, Transport
from farwrite_bench.grpc.turn import Turn, take_turn
from farwrite_bench.harness import benchmark


class Measurement:
    """A run: what it needs, and the version of gRPC that it met."""

    def __init__(
        self, plan: GrpcPlan, tools: Tools, progress: benchmark.Progress, logs: Path
    ) -> None:
        self.grpc = ""
        self._plan, self._tools, self._logs = plan, tools, logs
        self._progress = Progress(progress, expected_seconds(plan))

    def rows(self) -> list[Row]:
        """Measure everything and return its rows."""
        plan = self._plan
        found = [row for case in plan.cases for row in self._rows_of(case)]
        if plan.connect is not None:
            connect = ConnectBenchmark(plan, plan.connect, self._tools.payloads, self._logs)
            found += connect.rows(self._progress)
            self.grpc = connect.grpc or self.grpc
        if plan.qps is not None:
            if self._tools.qps is None:
                found += (
                    empty_row(QPS, transport, self._tools.no_qps)
                    for transport in plan.transports_of(QPS, NON_SERIALIZED)
                )
            else:
                qps = QpsBenchmark(plan, plan.qps, self._tools.qps, self._logs)
                found += qps.rows(self._progress)
        return found

    def _rows_of(self, case: Case) -> list[Row]:
        transports = self._plan.transports_of(case.benchmark, case.mode)
        turns: dict[str, list[Turn]] = {}
        for _ in range(self._plan.pace.rounds):
            for transport in transports:
                what = f"{case.benchmark} {case.payload.scheme} {case.mode} {transport.key}"
                self._progress(what, self._plan.seconds_of_turn(case, transport))
                turn = self._turn(case, transport)
                if turn is not None:
                    turns.setdefault(transport.key, []).append(turn)
                    self.grpc = turn.grpc or self.grpc
        return [
            make_row(
                case,
                transport,
                turns,
                self._plan.pace.mean,
                None if transport.key in turns else self._tools.no_openmpi,
            )
            for transport in transports
        ]

    def _turn(self, case: Case, transport: Transport) -> Turn | None:
        if transport.key != MPI:
            return take_turn(self._tools.payloads, case, transport, self._plan, self._logs)
        if self._tools.openmpi is None:
            return None
        return mpi.take_turn(self._tools.openmpi, case, self._plan.pace, self._logs)
