"""The command ``farwrite bench``, with one subcommand for each benchmark."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from farwrite_bench.benchmarks import benchmarks

if TYPE_CHECKING:
    from typing import Any

    Subparsers = argparse._SubParsersAction[Any]


def add_parser(subparsers: Subparsers) -> None:
    """Add the command ``bench``; import only the benchmark that the command line names."""
    parser = subparsers.add_parser(
        "bench",
        help="measure Farwrite against the physical limit of this machine",
        description="Measure Farwrite and the physical limit of this machine in turn, in one run.",
        epilog="Example: farwrite bench p2p --quick",
    )
    kinds = parser.add_subparsers(metavar="BENCHMARK", required=True)
    words = getattr(subparsers, "words", None)
    for name, entry in sorted(benchmarks().items()):
        if not entry.command:
            continue
        if words is None or name in words:
            from farwrite_bench.harness import command

            command.add_parser(entry.benchmark, entry.question, kinds)
        else:
            kinds.add_parser(name, help=entry.question)
