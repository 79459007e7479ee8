"""What one run of ``bench grpc`` measures, by its options, and about how long that takes."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from farwrite_bench.grpc.build import Tools
from farwrite_bench.grpc.payload import (
    CATEGORIES,
    PLAIN,
    RANDOM,
    SCHEMES,
    UNIFORM,
    Payload,
    check_categories,
    drawn,
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
SIZES, QUICK_SIZES = (64, 1 << 10, 1 << 16, 1 << 20, 1 << 24), (64, 1 << 16)
"""Plain sizes of the latency benchmark."""
RECEIVED_SIZE = 1 << 24
"""Bytes of a payload of the receiver benchmark."""
FIRST_SIZE, QPS_SIZE = 64, 1 << 10
"""Bytes of a connection's first call, and of a call of gRPC's own benchmark, each way."""
CONNECTION_SECONDS = 0.005
"""About how long a connection takes to open, with the pause behind it."""
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
    connect_rounds: int
    opened: int
    """Connections of a turn of the connect benchmark, behind the first."""
    qps_rounds: int
    qps_seconds: int
    """Whole seconds of a scenario of gRPC's own benchmark."""
    mean: bool = False
    """A row is the mean over the rounds, not the median."""

    @property
    def middle(self) -> str:
        """The name of what a row is of its rounds."""
        return "mean" if self.mean else "median"


SHORT = Pace(0.1, 0.4, 3, connect_rounds=9, opened=40, qps_rounds=2, qps_seconds=3)
QUICK = Pace(0.01, 0.05, 1, connect_rounds=1, opened=3, qps_rounds=1, qps_seconds=1)
FULL = replace(SHORT, warm_up=2.0, seconds=10.0, rounds=5, qps_seconds=10, mean=True)
"""The times of TF-gRPC-Bench."""
CONNECTIONS, QUICK_CONNECTIONS = 1000, 8
"""Idle connections between two processes, for their memory."""


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
    outstanding: int = 1
    """Calls under way from each worker to each server."""
    server_threads: int = 1
    reuse: bool = False
    """All calls send one payload."""
    reads: bool = True
    """Servers read what they receive."""

    @property
    def bytes_of_call(self) -> int:
        """The bytes of payloads that one call moves."""
        return self.payload.bytes * (2 if self.echo else 1)


@dataclass(frozen=True)
class GrpcPlan:
    """A whole run."""

    benchmarks: Collection[str]
    cases: tuple[Case, ...]
    """Of all benchmarks but connect and qps."""
    transports: tuple[Transport, ...]
    pace: Pace
    host: str
    """Where servers listen."""
    arguments: Mapping[str, int]
    """Settings of gRPC that replace or join those of every transport."""
    modes: tuple[str, ...]
    """Of the scenarios of gRPC's own benchmark."""
    idle: int
    """Idle connections of the connect benchmark."""
    names_transports: bool
    """The command names the transports."""
    settings: Mapping[str, Any]
    """Choices that the file names as they were made."""
    tools: Tools = field(default_factory=Tools)
    """The programs that it runs."""

    def arguments_of(self, transport: Transport) -> dict[str, int]:
        """Return the settings of gRPC for `transport`."""
        return {**transport.arguments, **self.arguments}

    def transports_of(self, benchmark: str, mode: str = NON_SERIALIZED) -> list[Transport]:
        """Return the transports that take part in `benchmark`."""
        left_out = set()
        if mode != NON_SERIALIZED or benchmark in BESIDE_TCP:
            left_out.add(MPI)
        if benchmark == QPS:
            left_out.add(UDS)  # gRPC's programs listen at ports
        if benchmark in BESIDE_TCP and not self.names_transports:
            left_out |= TRANSPORTS.keys() - {TCP, OVER_SHM}
        return [transport for transport in self.transports if transport.key not in left_out]


def expected_seconds(plan: GrpcPlan) -> float:
    """Estimate the time of a run on two processors."""
    pace, expected = plan.pace, 0.0
    for case in plan.cases:
        for transport in plan.transports_of(case.benchmark, case.mode):
            start = transport.start_seconds * (case.servers + case.workers) / 2
            expected += pace.rounds * (pace.warm_up + pace.seconds + start)
    if CONNECT in plan.benchmarks:
        connections = pace.connect_rounds * pace.opened + plan.idle
        for transport in plan.transports_of(CONNECT):
            expected += (pace.connect_rounds + 1) * transport.start_seconds
            expected += connections * CONNECTION_SECONDS
    if QPS in plan.benchmarks:
        scenarios = len(plan.modes) * SHAPES_OF_MODE
        turns = scenarios * pace.qps_rounds * len(plan.transports_of(QPS))
        expected += turns * (pace.qps_seconds + DRIVER_SECONDS)
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
        benchmarks=named,
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
        modes=tuple(mode for mode in MODES if mode in (arguments.mode or MODES)),
        idle=arguments.connections,
        names_transports=arguments.transport is not None,
        settings={
            "payload": PAYLOADS[arguments.payload],
            "server_threads": arguments.server_threads,
            "seed": arguments.seed,
        },
    )


def _pace(arguments: argparse.Namespace) -> Pace:
    pace = FULL if arguments.full else QUICK if arguments.quick else SHORT
    if (seconds := arguments.seconds) is not None:
        whole = 1 if arguments.quick else max(1, round(seconds))
        pace = replace(pace, seconds=seconds, qps_seconds=whole)
    if (rounds := arguments.rounds) is not None:
        pace = replace(pace, rounds=rounds, connect_rounds=rounds, qps_rounds=rounds)
    return pace


def _cases(benchmark: str, arguments: argparse.Namespace) -> Iterator[Case]:
    servers, workers = {
        PS_THROUGHPUT: (arguments.servers, arguments.workers),
        MIMIC: (arguments.nodes, 0),
    }.get(benchmark, (1, 1))
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
    plain_sizes = arguments.size or ()
    if benchmark == RECEIVER:
        plain_sizes = arguments.size or (RECEIVED_SIZE,)
    else:
        sizes = {category: getattr(arguments, category) for category in CATEGORIES}
        check_categories(sizes)
        count = arguments.iovec_count
        chosen = arguments.scheme or ([] if arguments.size else SCHEMES)
        for scheme in (each for each in SCHEMES if each in chosen):
            if scheme == UNIFORM:
                order = uniform(count)
            elif scheme == RANDOM:
                order = drawn(count, arguments.category, arguments.seed)
            else:
                order = skewed(count, arguments.bias)
            yield Payload(scheme, tuple(sizes[category] for category in order))
        if benchmark == LATENCY and arguments.size is None and arguments.scheme is None:
            plain_sizes = QUICK_SIZES if arguments.quick else SIZES
    yield from (Payload(PLAIN, (size,)) for size in plain_sizes)


def _modes(benchmark: str, payload: Payload, arguments: argparse.Namespace) -> Iterator[str]:
    if arguments.mode:
        yield from (mode for mode in MODES if mode in arguments.mode)
    elif benchmark == LATENCY and payload.scheme != PLAIN:
        yield from MODES
    else:
        yield NON_SERIALIZED
