"""The list of benchmarks: of this distribution, and of others that add to it.

A distribution adds benchmarks by an entry point of the group ``farwrite.benchmarks``. It names a
module that is a `Suite`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

if TYPE_CHECKING:
    from farwrite_bench.cluster.transport import Transport
    from farwrite_bench.harness.benchmark import Benchmark
    from farwrite_bench.report.files import Run

GROUP = "farwrite.benchmarks"


class Entry(NamedTuple):
    """One benchmark. Its modules are imported when they are used."""

    name: str
    """The name in its JSON files, and of its subcommand of ``farwrite bench``."""
    module: str
    """The module with its declaration, ``BENCHMARK``."""
    question: str
    """What it measures: a line of the list of benchmarks."""
    command: bool = True
    """Whether it has a subcommand."""

    @property
    def benchmark(self) -> Benchmark[Any]:
        """Its declaration."""
        return cast("Benchmark[Any]", import_module(self.module).BENCHMARK)


class Suite(Protocol):
    """The module that an entry point names."""

    BENCHMARKS: Sequence[Entry]

    def transports(self) -> Sequence[Transport]:
        """Return the transports that ``bench tensor`` compares beside its own."""

    def page_parts(self, runs: Sequence[Run]) -> Iterator[str]:
        """Make what the page of ``farwrite report`` has beside the parts of single benchmarks."""


BENCHMARKS = (
    Entry(
        "tensor",
        "farwrite_bench.tensor.benchmark",
        "measure a tensor that another TensorFlow process uses",
    ),
    Entry(
        "p2p",
        "farwrite_bench.p2p.benchmark",
        "measure write, read, notify and alias between two processes",
    ),
    Entry(
        "peers",
        "farwrite_bench.peers.benchmark",
        "compare Farwrite with UCX, OpenMPI, NIXL, gRPC and others",
    ),
    Entry(
        "gpu",
        "farwrite_bench.gpu.benchmark",
        "measure moving bytes between two processes on one GPU",
    ),
    Entry(
        "box", "farwrite_bench.box.benchmark", "measure the parameter box beside raw limits and MPI"
    ),
    Entry(
        "grpc", "farwrite_bench.grpc.benchmark", "measure gRPC programs over Farwrite, TCP and MPI"
    ),
    Entry(
        "step",
        "farwrite_bench.step.benchmark",
        "measure small steps of four kinds of TensorFlow programs",
    ),
    Entry(
        "feed", "farwrite_bench.feed.benchmark", "measure feeds and fetches of a TensorFlow client"
    ),
    Entry(
        "collective",
        "farwrite_bench.collective.benchmark",
        "measure an all-reduce between two TensorFlow workers",
    ),
    Entry(
        "assign",
        "farwrite_bench.assign.benchmark",
        "measure adding to a variable of another TensorFlow task",
    ),
    Entry("memory", "farwrite_bench.memory", "measure allocation, first use and copy kernels"),
    Entry(
        "calls",
        "farwrite_bench.calls.benchmark",
        "measure what single calls cost from Python and from C++",
    ),
    Entry(
        "start",
        "farwrite_bench.start",
        "measure imports, helps, farwrite run and the plug-in",
    ),
)


@functools.cache
def suites() -> tuple[Suite, ...]:
    """Load what other distributions add."""
    return tuple(
        cast("Suite", entry.load())
        for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name)
    )


@functools.cache
def benchmarks() -> Mapping[str, Entry]:
    """Return all benchmarks by name, in the order of the page."""
    found = [each for suite in suites() for each in suite.BENCHMARKS]
    return {each.name: each for each in (*found, *BENCHMARKS)}
