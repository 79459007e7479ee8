"""The options of the benchmark ``grpc``."""

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
from farwrite_bench.harness import option
from farwrite_bench.harness.option import Option
from farwrite_bench.options import count, size, sizes


def add_benchmarks(parser: argparse.ArgumentParser) -> None:
    """Add the names of the benchmarks."""
    parser.add_argument(
        "benchmark",
        nargs="*",
        type=_benchmark,
        metavar="BENCHMARK",
        help=f"one or more of {', '.join(BENCHMARKS)} (default: all)",
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


_SCALE = Scale()
_DEFAULT = ", ".join(key for key, each in TRANSPORTS.items() if each.is_default)
_PAYLOADS, _PROCESSES, _LENGTH = "payloads", "processes", "length"
OPTIONS = (
    option.chosen(
        "--transport",
        TRANSPORTS,
        f"{_DEFAULT}; of {RECEIVER}, {CONNECT} and {QPS}: tcp, farwrite-shm",
        filled=False,
    ),
    Option("--address", "where servers listen for TCP", "127.0.0.1", kind=str, metavar="ADDRESS"),
    Option(
        "--argument",
        "a channel argument of gRPC for all transports, instead of the ones that are printed; may"
        " be given several times",
        kind=_argument,
        metavar="NAME=N",
        many=True,
    ),
    option.chosen("--scheme", SCHEMES, "all; with --size, none", filled=False, group=_PAYLOADS),
    option.chosen(
        "--mode",
        MODES,
        "both for latency with a scheme, else non-serialized",
        filled=False,
        group=_PAYLOADS,
    ),
    Option(
        "--size",
        "also payloads of one buffer of these sizes",
        kind=_sizes,
        metavar="64,1K,...",
        shown="64,1K,64K,1M,16M for latency, 16M for receiver",
        group=_PAYLOADS,
    ),
    Option(
        "--iovec-count", "buffers of a payload", _SCALE.iovec_count, kind=count, group=_PAYLOADS
    ),
    *(
        Option(
            f"--{category}",
            f"bytes of a {category} buffer",
            _SCALE.bytes_of(category),
            kind=size,
            metavar="BYTES",
            group=_PAYLOADS,
        )
        for category in CATEGORIES
    ),
    Option(
        "--bias",
        "skew: category of 60 %% of the buffers; large: 30 %% medium, 10 %% small; medium: 30 %%"
        " large, 10 %% small; small: 30 %% medium, 10 %% large",
        LARGE,
        choices=CATEGORIES,
        group=_PAYLOADS,
    ),
    Option(
        "--category",
        "random: a category to choose from; two are needed",
        choices=CATEGORIES,
        many=True,
        shown="all",
        group=_PAYLOADS,
    ),
    Option("--seed", "random: seed of the choice", SEED, kind=int, group=_PAYLOADS),
    Option(
        "--payload",
        "fresh: every call allocates its payload; reused: all calls send one",
        FRESH,
        choices=(FRESH, REUSED),
        group=_PAYLOADS,
    ),
    *(
        Option(name, what, default, kind=count, group=_PROCESSES)
        for name, default, what in (
            ("--servers", SERVERS, "servers of ps-throughput"),
            ("--workers", WORKERS, "workers of ps-throughput"),
            ("--server-threads", 1, "threads that serve in each server"),
            ("--window", WINDOW, "calls under way in the benchmarks bandwidth and receiver"),
        )
    ),
    Option(
        "--connections",
        "idle connections of the connect benchmark",
        CONNECT_SHORT.idle,
        CONNECT_QUICK.idle,
        count,
        group=_PROCESSES,
    ),
    Option("--nodes", "of mimic", NODES, kind=_nodes, group=_PROCESSES),
    Option(
        "--full",
        f"the times of TF-gRPC-Bench: {FULL.warm_up:g} s to warm up, {FULL.seconds:g} s, the mean"
        f" of {FULL.rounds} rounds; takes hours unless other options select less",
        group=_LENGTH,
    ),
    Option(
        "--rounds",
        "turns of each transport",
        kind=count,
        shown=f"{SHORT.rounds}, of connect {CONNECT_SHORT.rounds}, of qps {QPS_ROUNDS}; --quick:"
        f" {QUICK.rounds}",
        group=_LENGTH,
    ),
    Option(
        "--seconds",
        "measured seconds of a turn",
        kind=_seconds,
        metavar="S",
        shown=f"{SHORT.seconds:g}, of qps {QPS_SECONDS}; --quick: {QUICK.seconds:g}, of qps 1",
        group=_LENGTH,
    ),
)
