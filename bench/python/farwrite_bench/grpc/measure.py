"""Measures every case of a plan, one transport after the other in each round."""

from __future__ import annotations

from pathlib import Path

from farwrite_bench.box.openmpi import OpenMpi
from farwrite_bench.grpc import mpi
from farwrite_bench.grpc.plan import Case, GrpcPlan
from farwrite_bench.grpc.rows import Row, make_row
from farwrite_bench.grpc.transport import MPI, Transport
from farwrite_bench.grpc.turn import Turn, take_turn
from farwrite_bench.table import ProgressBar


class Measurement:
    """A run: what it needs, and the version of gRPC that it met."""

    def __init__(
        self,
        plan: GrpcPlan,
        executable: Path,
        openmpi: OpenMpi | None,
        why_not: str,
        bar: ProgressBar,
        logs: Path,
    ) -> None:
        self.grpc = ""
        self._plan, self._executable, self._bar, self._logs = plan, executable, bar, logs
        self._openmpi, self._why_not = openmpi, why_not

    def rows(self) -> list[Row]:
        """Measure all cases and return their rows."""
        total = len(self._plan.cases) * self._plan.pace.rounds
        found: list[Row] = []
        for number, case in enumerate(self._plan.cases):
            turns: dict[str, list[Turn]] = {}
            for done in range(self._plan.pace.rounds):
                share = (number * self._plan.pace.rounds + done) / total
                for transport in self._plan.transports_of(case):
                    what = f"{case.benchmark} {case.payload.scheme} {case.mode} {transport.key}"
                    self._bar(share, what)
                    turn = self._turn(case, transport)
                    if turn is not None:
                        turns.setdefault(transport.key, []).append(turn)
                        self.grpc = turn.grpc or self.grpc
            found += (
                make_row(
                    case,
                    transport,
                    turns,
                    self._plan.pace.mean,
                    None if transport.key in turns else self._why_not,
                )
                for transport in self._plan.transports_of(case)
            )
        return found

    def _turn(self, case: Case, transport: Transport) -> Turn | None:
        if transport.key != MPI:
            return take_turn(self._executable, case, transport, self._plan, self._logs)
        if self._openmpi is None:
            return None
        return mpi.take_turn(self._openmpi, case, self._plan.pace, self._logs)
