"""What one run of ``bench grpc`` measures, and how long that is expected to take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from farwrite_bench.grpc.payload import Payload
from farwrite_bench.grpc.transport import MPI, TRANSPORTS, Transport

LATENCY, BANDWIDTH, PS_THROUGHPUT, MIMIC = "latency", "bandwidth", "ps-throughput", "mimic"
BENCHMARKS = (LATENCY, BANDWIDTH, PS_THROUGHPUT, MIMIC)
SERIALIZED, NON_SERIALIZED = "serialized", "non-serialized"
MODES = (NON_SERIALIZED, SERIALIZED)
FRESH, REUSED = "fresh", "reused"
SIZES = (64, 1 << 10, 1 << 16, 1 << 20, 1 << 24)
"""Plain sizes of the latency benchmark."""
QUICK_SIZES = (64, 1 << 16)
SERVERS, WORKERS, NODES = 2, 3, 3
WINDOW = 2
"""Calls under way to each server in the bandwidth benchmark."""


@dataclass(frozen=True)
class Pace:
    """How long the turns are, and how many."""

    warm_up: float
    """Seconds of a turn that do not count."""
    seconds: float
    """Seconds of a turn that count."""
    rounds: int
    mean: bool = False
    """A row is the mean over the rounds, not the median."""


SHORT = Pace(0.1, 0.4, 3)
QUICK = Pace(0.01, 0.05, 1)
FULL = Pace(2.0, 10.0, 5, mean=True)
"""The times of TF-gRPC-Bench."""


@dataclass(frozen=True)
class Case:
    """What all transports do in turn."""

    benchmark: str
    mode: str
    payload: Payload
    servers: int
    workers: int
    """0 if every server is also a worker that calls all others."""
    echo: bool
    """The reply is the payload; otherwise it is an empty acknowledgement."""
    outstanding: int
    """Calls under way from each worker to each server."""
    server_threads: int
    reuse: bool
    """All calls send one payload."""

    @property
    def bytes_of_call(self) -> int:
        """The bytes of payloads that one call moves."""
        return self.payload.bytes * (2 if self.echo else 1)

    @property
    def processes(self) -> int:
        """The number of processes."""
        return self.servers + self.workers


@dataclass(frozen=True)
class GrpcPlan:
    """A whole run."""

    cases: tuple[Case, ...]
    transports: tuple[Transport, ...]
    pace: Pace
    host: str
    """Where servers listen."""
    arguments: Mapping[str, int] = field(default_factory=dict)
    """Settings of gRPC that replace or join those of every transport."""

    def arguments_of(self, transport: Transport) -> dict[str, int]:
        """Return the settings of gRPC for `transport`."""
        return {**transport.arguments, **self.arguments}

    def transports_of(self, case: Case) -> list[Transport]:
        """Return the transports that take part in `case`."""
        return [
            transport
            for transport in self.transports
            if transport.key != MPI or case.mode == NON_SERIALIZED
        ]


def expected_seconds(plan: GrpcPlan) -> float:
    """Estimate the time of a run on two processors."""
    turn = plan.pace.warm_up + plan.pace.seconds
    return sum(
        plan.pace.rounds * (turn + transport.start_seconds * case.processes / 2)
        for case in plan.cases
        for transport in plan.transports_of(case)
    )


def chosen_transports(keys: Sequence[str] | None) -> tuple[Transport, ...]:
    """Return the transports of these keys, or those of a run without the option."""
    if keys is None:
        return tuple(each for each in TRANSPORTS.values() if each.is_default)
    return tuple(each for key, each in TRANSPORTS.items() if key in keys)
