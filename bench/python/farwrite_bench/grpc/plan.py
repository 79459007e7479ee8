"""What one run of ``bench grpc`` measures, and how long that is expected to take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from farwrite_bench.grpc.payload import Payload
from farwrite_bench.grpc.transport import MPI, OVER_SHM, TCP, TRANSPORTS, UDS, Transport

LATENCY, BANDWIDTH, PS_THROUGHPUT, MIMIC = "latency", "bandwidth", "ps-throughput", "mimic"
RECEIVER, CONNECT, QPS = "receiver", "connect", "qps"
BENCHMARKS = (LATENCY, BANDWIDTH, PS_THROUGHPUT, MIMIC, RECEIVER, CONNECT, QPS)
BESIDE_TCP = (RECEIVER, CONNECT, QPS)
"""These compare Farwrite with TCP alone, unless --transport names others."""
SERIALIZED, NON_SERIALIZED = "serialized", "non-serialized"
MODES = (NON_SERIALIZED, SERIALIZED)
FRESH, REUSED = "fresh", "reused"
SIZES = (64, 1 << 10, 1 << 16, 1 << 20, 1 << 24)
"""Plain sizes of the latency benchmark."""
QUICK_SIZES = (64, 1 << 16)
RECEIVED_SIZE = 1 << 24
"""Bytes of a payload of the receiver benchmark."""
FIRST_SIZE, QPS_SIZE = 64, 1 << 10
"""Bytes of a connection's first call, and of a call of gRPC's own benchmark, each way."""
SERVERS, WORKERS, NODES = 2, 3, 3
CONNECTION_SECONDS = 0.005
"""About how long a connection takes to open, with the pause behind it."""
QPS_SECONDS, QPS_ROUNDS = 3, 2
DRIVER_SECONDS = 0.6
"""About how long gRPC's driver takes beside the seconds of a scenario."""
SHAPES_OF_MODE = 4
"""Scenarios of gRPC's own benchmark in one mode: unary or streaming, over one channel or two."""
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
    reads: bool = True
    """Servers read what they receive."""

    @property
    def bytes_of_call(self) -> int:
        """The bytes of payloads that one call moves."""
        return self.payload.bytes * (2 if self.echo else 1)

    @property
    def processes(self) -> int:
        """The number of processes."""
        return self.servers + self.workers


@dataclass(frozen=True)
class ConnectPlan:
    """How many connections the connect benchmark opens."""

    rounds: int
    """Turns of each transport, each in new processes."""
    opened: int
    """Connections of a turn behind the first."""
    idle: int
    """Idle connections between two processes, for their memory."""

    def seconds(self, transport: Transport) -> float:
        """Estimate the time of all turns of `transport`."""
        starts = (self.rounds + 1) * transport.start_seconds
        return starts + (self.rounds * self.opened + self.idle) * CONNECTION_SECONDS


CONNECT_SHORT, CONNECT_QUICK = ConnectPlan(9, 40, 1000), ConnectPlan(1, 3, 8)


@dataclass(frozen=True)
class QpsPlan:
    """What gRPC's own benchmark runs."""

    rounds: int
    seconds: int
    """Whole seconds of a scenario."""
    modes: tuple[str, ...]
    size: int

    @property
    def seconds_of_turn(self) -> float:
        """About how long one scenario takes over one transport."""
        return self.seconds + DRIVER_SECONDS


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
    connect: ConnectPlan | None = None
    qps: QpsPlan | None = None
    needs_qps: bool = False
    """The command names qps, so that missing programs are an error."""
    names_transports: bool = False
    """The command names the transports."""

    def arguments_of(self, transport: Transport) -> dict[str, int]:
        """Return the settings of gRPC for `transport`."""
        return {**transport.arguments, **self.arguments}

    def transports_of(self, benchmark: str, mode: str) -> list[Transport]:
        """Return the transports that take part in `benchmark`."""
        left_out = set()
        if mode != NON_SERIALIZED or benchmark in BESIDE_TCP:
            left_out.add(MPI)
        if benchmark == QPS:
            left_out.add(UDS)  # gRPC's programs listen at ports
        if benchmark in BESIDE_TCP and not self.names_transports:
            left_out |= TRANSPORTS.keys() - {TCP, OVER_SHM}
        return [transport for transport in self.transports if transport.key not in left_out]

    def seconds_of_turn(self, case: Case, transport: Transport) -> float:
        """Estimate the time of a turn of `case`."""
        turn = self.pace.warm_up + self.pace.seconds
        return turn + transport.start_seconds * case.processes / 2


def expected_seconds(plan: GrpcPlan) -> float:
    """Estimate the time of a run on two processors."""
    expected = sum(
        plan.pace.rounds * plan.seconds_of_turn(case, transport)
        for case in plan.cases
        for transport in plan.transports_of(case.benchmark, case.mode)
    )
    if plan.connect is not None:
        for transport in plan.transports_of(CONNECT, NON_SERIALIZED):
            expected += plan.connect.seconds(transport)
    if plan.qps is not None:
        scenarios = len(plan.qps.modes) * SHAPES_OF_MODE
        turns = scenarios * plan.qps.rounds * len(plan.transports_of(QPS, NON_SERIALIZED))
        expected += turns * plan.qps.seconds_of_turn
    return expected


def chosen_transports(keys: Sequence[str] | None) -> tuple[Transport, ...]:
    """Return the transports of these keys, or those of a run without the option."""
    if keys is None:
        return tuple(each for each in TRANSPORTS.values() if each.is_default)
    return tuple(each for key, each in TRANSPORTS.items() if key in keys)
