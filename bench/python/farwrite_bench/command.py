"""The command ``farwrite bench``, with one subcommand for each benchmark."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    Subparsers = argparse._SubParsersAction[Any]

BENCHMARKS = {
    "p2p": "p2p_command",
    "peers": "peers.command",
    "memory": "memory_command",
    "tensor": "tensor.command",
    "step": "step.command",
    "feed": "feed.command",
    "ablations": "tensor.ablations",
    "collective": "collective.command",
    "assign": "assign.command",
    "train": "train.command",
    "scaling": "scaling.command",
    "convergence": "convergence.command",
    "sizes": "sizes.command",
    "box": "box.command",
    "grpc": "grpc.command",
    "gpu": "gpu.command",
}
"""Each benchmark and its module, which adds the subcommand with add_parser(subparsers)."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the command ``bench``; import only the benchmark that the command line names."""
    parser = subparsers.add_parser(
        "bench",
        help="measure Farwrite against the physical limit of this machine",
        description="Measure Farwrite and the physical limit of this machine in turn, in one run.",
        epilog="Example: farwrite bench p2p --quick",
    )
    kinds = parser.add_subparsers(metavar="BENCHMARK", required=True)
    for name in _needed(getattr(subparsers, "words", None) or ()):
        import_module(f"farwrite_bench.{BENCHMARKS[name]}").add_parser(kinds)


def _needed(words: Iterable[str]) -> Iterable[str]:
    following = iter(words)
    named = next(following, None) if "bench" in following else None  # the word after it
    return [named] if named in BENCHMARKS else BENCHMARKS
