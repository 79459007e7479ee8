"""The command ``farwrite bench``, with one subcommand for each benchmark."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING

from farwrite_bench.benchmarks import Entry, benchmarks
from farwrite_bench.harness import command

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
    for entry in _needed(getattr(subparsers, "words", None) or ()):
        if entry.command:
            command.add_parser(entry.benchmark, kinds)


def _needed(words: Iterable[str]) -> Iterable[Entry]:
    following = iter(words)
    named = next(following, None) if "bench" in following else None  # the word after it
    known = benchmarks()
    return [known[named]] if named and named in known else [known[each] for each in sorted(known)]
