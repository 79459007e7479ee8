"""The options of ``bench grpc``, and the plan that they select."""

from __future__ import annotations

import argparse

from farwrite.cli_parser import did_you_mean
from farwrite.units import parse_seconds
from farwrite_bench.grpc.payload import (
    CATEGORIES,
    LARGE,
    SCHEMES,
    SEED,
    Scale,
)
from farwrite_bench.grpc.plan import (
    BENCHMARKS,
    CONNECT,
    CONNECT_QUICK,
    CONNECT_SHORT,
    FRESH,
    FULL,
    MODES,
    NODES,
    QPS,
    QPS_ROUNDS,
    QPS_SECONDS,
    QUICK,
    RECEIVER,
    REUSED,
    SERVERS,
    SHORT,
    WINDOW,
    WORKERS,
)
from farwrite_bench.grpc.transport import TRANSPORTS
from farwrite_bench.options import add_choices, add_shared, count, size, sizes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that select what is measured."""
    parser.add_argument(
        "benchmark",
        nargs="*",
        type=_benchmark,
        metavar="BENCHMARK",
        help=f"one or more of {', '.join(BENCHMARKS)} (default: all)",
    )
    default = ", ".join(key for key, each in TRANSPORTS.items() if each.is_default)
    default += f"; of {RECEIVER}, {CONNECT} and {QPS}: tcp, farwrite-shm"
    add_choices(parser, "--transport", TRANSPORTS, default)
    parser.add_argument(
        "--address",
        default="127.0.0.1",
        help="where servers listen for TCP (default: 127.0.0.1)",
    )
    parser.add_argument(
        "--argument",
        type=_argument,
        action="append",
        metavar="NAME=N",
        help="a channel argument of gRPC for all transports, instead of the ones that are printed;"
        " may be given several times",
    )
    _add_payload(parser)
    _add_processes(parser)
    _add_pace(parser)


def _add_payload(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("payloads")
    add_choices(group, "--scheme", SCHEMES, "all; with --size, none")
    add_choices(group, "--mode", MODES, "both for latency with a scheme, else non-serialized")
    group.add_argument(
        "--size",
        type=_sizes,
        metavar="64,1K,...",
        help="also payloads of one buffer of these sizes (default: 64,1K,64K,1M,16M for latency,"
        " 16M for receiver)",
    )
    scale = Scale()
    group.add_argument(
        "--iovec-count",
        type=count,
        default=scale.iovec_count,
        metavar="N",
        help=f"buffers of a payload (default: {scale.iovec_count})",
    )
    for category in CATEGORIES:
        group.add_argument(
            f"--{category}",
            type=size,
            default=scale.bytes_of(category),
            metavar="BYTES",
            help=f"bytes of a {category} buffer (default: {scale.bytes_of(category)})",
        )
    group.add_argument(
        "--bias",
        choices=CATEGORIES,
        default=LARGE,
        help="skew: category of 60 %% of the buffers; large: 30 %% medium, 10 %% small; medium:"
        " 30 %% large, 10 %% small; small: 30 %% medium, 10 %% large (default: large)",
    )
    group.add_argument(
        "--category",
        choices=CATEGORIES,
        action="append",
        help="random: a category to choose from; two are needed (default: all)",
    )
    group.add_argument(
        "--seed",
        type=int,
        default=SEED,
        metavar="N",
        help=f"random: seed of the choice (default: {SEED})",
    )
    group.add_argument(
        "--payload",
        choices=(FRESH, REUSED),
        default=FRESH,
        help="fresh: every call allocates its payload; reused: all calls send one (default: fresh)",
    )


def _add_processes(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("processes")
    for name, default, what in (
        ("--servers", SERVERS, "servers of ps-throughput"),
        ("--workers", WORKERS, "workers of ps-throughput"),
        ("--server-threads", 1, "threads that serve in each server"),
        ("--window", WINDOW, "calls under way in the benchmarks bandwidth and receiver"),
    ):
        group.add_argument(
            name, type=count, default=default, metavar="N", help=f"{what} (default: {default})"
        )
    group.add_argument(
        "--connections",
        type=count,
        metavar="N",
        help="idle connections of the connect benchmark"
        f" (default: {CONNECT_SHORT.idle}; --quick: {CONNECT_QUICK.idle})",
    )
    group.add_argument(
        "--nodes", type=_nodes, default=NODES, metavar="N", help=f"of mimic (default: {NODES})"
    )


def _add_pace(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("length")
    add_shared(group, "--quick")
    group.add_argument(
        "--full",
        action="store_true",
        help=f"the times of TF-gRPC-Bench: {FULL.warm_up:g} s to warm up, {FULL.seconds:g} s,"
        f" the mean of {FULL.rounds} rounds; takes hours unless other options select less",
    )
    group.add_argument(
        "--rounds",
        type=count,
        metavar="N",
        help=f"turns of each transport (default: {SHORT.rounds}, of connect {CONNECT_SHORT.rounds},"
        f" of qps {QPS_ROUNDS};"
        f" --quick: {QUICK.rounds})",
    )
    group.add_argument(
        "--seconds",
        type=_seconds,
        metavar="S",
        help=f"measured seconds of a turn (default: {SHORT.seconds:g}, of qps {QPS_SECONDS};"
        f" --quick: {QUICK.seconds:g}, of qps 1)",
    )


def _benchmark(text: str) -> str:
    if text not in BENCHMARKS:
        hint = did_you_mean(text, BENCHMARKS)
        raise argparse.ArgumentTypeError(
            f"no benchmark {text!r}{hint or '; use ' + ', '.join(BENCHMARKS)}"
        )
    return text


def _argument(text: str) -> tuple[str, int]:
    name, equals, value = text.partition("=")
    if not (name and equals) or not value.removeprefix("-").isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=INTEGER, as grpc.http2.bdp_probe=1")
    return name, int(value)


def _nodes(text: str) -> int:
    nodes = count(text)
    if nodes < 2:
        raise argparse.ArgumentTypeError("1 node has no other node to call; use 2 or more")
    return nodes


def _seconds(text: str) -> float:
    try:
        length = parse_seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not 0 < length <= 600:
        raise argparse.ArgumentTypeError(f"{text!r} is no length of a turn; use up to 600 s")
    return length


def _sizes(text: str) -> tuple[int, ...]:
    found = sizes(text)
    if not found or min(found) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} has no sizes of 1 byte or more, as 64,1K,1M")
    return found
