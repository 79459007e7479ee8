"""What one run of ``bench grpc`` measures, by its options, and about how long that takes."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from farwrite_bench.grpc.build import Tools
from farwrite_bench.grpc.payload import (
    PLAIN,
    RANDOM,
    SCHEMES,
    SKEW,
    UNIFORM,
    Payload,
    Scale,
    plain,
    random_payload,
    skewed,
    uniform,
)
from farwrite_bench.grpc.transport import MPI, OVER_SHM, TCP, TRANSPORTS, UDS, Transport

LATENCY, BANDWIDTH, PS_THROUGHPUT, MIMIC = "latency", "bandwidth", "ps-throughput", "mimic"
RECEIVER, CONNECT, QPS = "receiver", "connect", "qps"
BENCHMARKS = (LATENCY, BANDWIDTH, PS_THROUGHPUT, MIMIC, RECEIVER, CONNECT, QPS)
BESIDE_TCP = (RECEIVER, CONNECT, QPS)
"""These compare Farwrite with TCP alone, unless --transport names others."""
SERIALIZED, NON_SERIALIZED = "serialized", "non-serialized"
MODES = (NON_SERIALIZED, SERIALIZED)
FRESH, REUSED = "fresh", "reused"
PAYLOADS = {
    FRESH: "fresh payloads: each call allocates its buffers, as a program does that sends new"
    " tensors",
    REUSED: "one reused payload: all calls send the same buffers, as TF-gRPC-Bench does, so that"
    " rates have no cost of making payloads",
}
SIZES = (64, 1 << 10, 1 << 16, 1 << 20, 1 << 24)
"""Plain sizes of the latency benchmark."""
QUICK_SIZES = (64, 1 << 16)
RECEIVED_SIZE = 1 << 24
"""Bytes of a payload of the receiver benchmark."""
FIRST_SIZE, QPS_SIZE = 64, 1 << 10
"""Bytes of a connection's first call, and of a call of gRPC's own benchmark, each way."""
CONNECTION_SECONDS = 0.005
"""About how long a connection takes to open, with the pause behind it."""
QPS_SECONDS, QPS_ROUNDS = 3, 2
DRIVER_SECONDS = 0.6
"""About how long gRPC's driver takes beside the seconds of a scenario."""
SHAPES_OF_MODE = 4
"""Scenarios of gRPC's own benchmark in one mode: unary or streaming, over one channel or two."""


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

    @property
    def middle(self) -> str:
        """The name of what a row is of its rounds."""
        return "mean" if self.mean else "median"


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
    arguments: Mapping[str, int]
    """Settings of gRPC that replace or join those of every transport."""
    connect: ConnectPlan | None
    qps: QpsPlan | None
    names_transports: bool
    """The command names the transports."""
    settings: Mapping[str, Any]
    """Choices that the file names as they were made."""
    tools: Tools = field(default_factory=Tools)
    """The programs that it runs."""

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


def make_plan(arguments: argparse.Namespace) -> GrpcPlan:
    """Return what the arguments select.

    Raises
    ------
    InvalidArgument
        If a payload cannot be made.
    """
    named = arguments.benchmark or BENCHMARKS
    return GrpcPlan(
        cases=tuple(
            case
            for benchmark in BENCHMARKS
            if benchmark in named and benchmark not in (CONNECT, QPS)
            for case in _cases(benchmark, arguments)
        ),
        transports=tuple(
            each
            for key, each in TRANSPORTS.items()
            if (each.is_default if arguments.transport is None else key in arguments.transport)
        ),
        pace=_pace(arguments),
        host=arguments.address,
        arguments=dict(arguments.argument or ()),
        connect=_connect(arguments) if CONNECT in named else None,
        qps=_qps(arguments) if QPS in named else None,
        names_transports=arguments.transport is not None,
        settings={
            "payload": PAYLOADS[arguments.payload],
            "server_threads": arguments.server_threads,
            "seed": arguments.seed,
        },
    )


def _connect(arguments: argparse.Namespace) -> ConnectPlan:
    usual = CONNECT_QUICK if arguments.quick else CONNECT_SHORT
    return ConnectPlan(arguments.rounds or usual.rounds, usual.opened, arguments.connections)


def _qps(arguments: argparse.Namespace) -> QpsPlan:
    pace = _pace(arguments)
    seconds = arguments.seconds or (pace.seconds if arguments.full else QPS_SECONDS)
    return QpsPlan(
        rounds=arguments.rounds or (QUICK.rounds if arguments.quick else QPS_ROUNDS),
        # gRPC's scenarios take whole seconds.
        seconds=1 if arguments.quick else max(1, round(seconds)),
        modes=tuple(mode for mode in MODES if mode in (arguments.mode or MODES)),
        size=QPS_SIZE,
    )


def _cases(benchmark: str, arguments: argparse.Namespace) -> Iterator[Case]:
    servers, workers = {
        LATENCY: (1, 1),
        BANDWIDTH: (1, 1),
        RECEIVER: (1, 1),
        PS_THROUGHPUT: (arguments.servers, arguments.workers),
        MIMIC: (arguments.nodes, 0),
    }[benchmark]
    one_way = benchmark in (BANDWIDTH, RECEIVER)
    for payload in _payloads(benchmark, arguments):
        for mode in _modes(benchmark, payload, arguments):
            for reads in (False, True) if benchmark == RECEIVER else (True,):
                yield Case(
                    benchmark=benchmark,
                    mode=mode,
                    payload=payload,
                    servers=servers,
                    workers=workers,
                    echo=not one_way,
                    outstanding=arguments.window if one_way else 1,
                    server_threads=arguments.server_threads,
                    reuse=arguments.payload == REUSED,
                    reads=reads,
                )


def _payloads(benchmark: str, arguments: argparse.Namespace) -> Iterator[Payload]:
    if benchmark == RECEIVER:
        yield from map(plain, arguments.size or (RECEIVED_SIZE,))
        return
    scale = Scale(arguments.iovec_count, arguments.small, arguments.medium, arguments.large)
    chosen = arguments.scheme or ([] if arguments.size else SCHEMES)
    if UNIFORM in chosen:
        yield uniform(scale)
    if RANDOM in chosen:
        yield random_payload(scale, arguments.category, arguments.seed)
    if SKEW in chosen:
        yield skewed(scale, arguments.bias)
    plain_sizes = arguments.size
    if plain_sizes is None and arguments.scheme is None and benchmark == LATENCY:
        plain_sizes = QUICK_SIZES if arguments.quick else SIZES
    yield from map(plain, plain_sizes or ())


def _modes(benchmark: str, payload: Payload, arguments: argparse.Namespace) -> Iterator[str]:
    if arguments.mode:
        yield from (mode for mode in MODES if mode in arguments.mode)
    elif benchmark == LATENCY and payload.scheme != PLAIN:
        yield from MODES
    else:
        yield NON_SERIALIZED


def _pace(arguments: argparse.Namespace) -> Pace:
    pace = FULL if arguments.full else QUICK if arguments.quick else SHORT
    return Pace(
        pace.warm_up, arguments.seconds or pace.seconds, arguments.rounds or pace.rounds, pace.mean
    )
