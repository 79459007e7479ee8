"""The command ``farwrite bench``, with one subcommand for each benchmark."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from farwrite_bench import memory_command, p2p_command
from farwrite_bench.assign import command as assign
from farwrite_bench.box import command as box
from farwrite_bench.collective import command as collective
from farwrite_bench.convergence import command as convergence
from farwrite_bench.feed import command as feed
from farwrite_bench.gpu import command as gpu
from farwrite_bench.grpc import command as grpc
from farwrite_bench.peers import command as peers
from farwrite_bench.scaling import command as scaling
from farwrite_bench.sizes import command as sizes
from farwrite_bench.step import command as step
from farwrite_bench.tensor import ablations
from farwrite_bench.tensor import command as tensor
from farwrite_bench.train import command as train

if TYPE_CHECKING:
    from typing import Any

    Subparsers = argparse._SubParsersAction[Any]

# Each adds one subcommand with add_parser(subparsers), like the entry points of farwrite.commands.
BENCHMARKS = (
    p2p_command,
    peers,
    memory_command,
    tensor,
    step,
    feed,
    ablations,
    collective,
    assign,
    train,
    scaling,
    convergence,
    sizes,
    box,
    grpc,
    gpu,
)


def add_parser(subparsers: Subparsers) -> None:
    """Add the command ``bench``."""
    parser = subparsers.add_parser(
        "bench",
        help="measure Farwrite against the physical limit of this machine",
        description="Measure Farwrite and the physical limit of this machine in turn, in one run.",
    )
    kinds = parser.add_subparsers(metavar="BENCHMARK", required=True)
    for benchmark in BENCHMARKS:
        benchmark.add_parser(kinds)
