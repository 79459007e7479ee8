"""The plan that the options of ``bench grpc`` select."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from farwrite_bench.grpc.payload import (
    CATEGORIES,
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
from farwrite_bench.grpc.plan import (
    BANDWIDTH,
    BENCHMARKS,
    CONNECT,
    CONNECT_QUICK,
    CONNECT_SHORT,
    FULL,
    LATENCY,
    MIMIC,
    MODES,
    NON_SERIALIZED,
    PS_THROUGHPUT,
    QPS,
    QPS_ROUNDS,
    QPS_SECONDS,
    QPS_SIZE,
    QUICK,
    QUICK_SIZES,
    RECEIVED_SIZE,
    RECEIVER,
    REUSED,
    SHORT,
    SIZES,
    Case,
    ConnectPlan,
    GrpcPlan,
    Pace,
    QpsPlan,
    chosen_transports,
)


def make_plan(arguments: argparse.Namespace) -> GrpcPlan:
    """Return what the arguments select.

    Raises
    ------
    InvalidArgument
        If the payload cannot be made.
    """
    named = arguments.benchmark or BENCHMARKS
    return GrpcPlan(
        cases=tuple(
            case
            for benchmark in BENCHMARKS
            if benchmark in named and benchmark not in (CONNECT, QPS)
            for case in _cases(benchmark, arguments)
        ),
        transports=chosen_transports(arguments.transport),
        pace=_pace(arguments),
        host=arguments.address,
        arguments=dict(arguments.argument or ()),
        connect=_connect(arguments) if CONNECT in named else None,
        qps=_qps(arguments) if QPS in named else None,
        needs_qps=QPS in (arguments.benchmark or ()),
        names_transports=arguments.transport is not None,
    )


def _connect(arguments: argparse.Namespace) -> ConnectPlan:
    usual = CONNECT_QUICK if arguments.quick else CONNECT_SHORT
    return ConnectPlan(
        arguments.rounds or usual.rounds, usual.opened, arguments.connections or usual.idle
    )


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
        yield random_payload(scale, arguments.category or CATEGORIES, arguments.seed)
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
