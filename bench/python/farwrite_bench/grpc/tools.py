"""The programs of others that a plan needs, and why one of them is missing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from farwrite.errors import NotFound
from farwrite_bench.box.openmpi import OpenMpi, find
from farwrite_bench.grpc.build import build, find_qps
from farwrite_bench.grpc.plan import GrpcPlan
from farwrite_bench.grpc.transport import MPI


@dataclass(frozen=True)
class Tools:
    """What there is."""

    payloads: Path
    """The gRPC program of this benchmark."""
    openmpi: OpenMpi | None = None
    no_openmpi: str = ""
    qps: Path | None = None
    """The folder of gRPC's own benchmark."""
    no_qps: str = ""

    @property
    def notes(self) -> list[str]:
        """Why rows are skipped."""
        return list(filter(None, (self.no_openmpi, self.no_qps)))


def find_tools(plan: GrpcPlan) -> Tools:
    """Find what the plan needs, and compile the program of this benchmark.

    Raises
    ------
    NotFound
        If gRPC is missing, or the programs of a benchmark that the command names.
    """
    openmpi, no_openmpi, qps, no_qps = None, "", None, ""
    if plan.qps is not None:
        try:
            qps = find_qps()
        except NotFound as error:
            if plan.needs_qps:
                raise
            no_qps = str(error)
    if any(transport.key == MPI for transport in plan.transports):
        try:
            openmpi = find()
        except NotFound as error:
            no_openmpi = str(error)
    return Tools(build(), openmpi, no_openmpi, qps, no_qps)
