"""The list of benchmarks: of this distribution, and of others that add to it.

A distribution adds benchmarks by an entry point of the group ``farwrite.benchmarks``. It names a
module that is a `Suite`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from farwrite_bench.cluster.transport import Transport
    from farwrite_bench.harness.benchmark import Benchmark
    from farwrite_bench.report.files import Run

GROUP = "farwrite.benchmarks"


@dataclass(frozen=True)
class Entry:
    """One benchmark. Its modules are imported when they are used."""

    name: str
    """The name in its JSON files, and of its subcommand of ``farwrite bench``."""
    module: str
    """The module with its declaration, ``BENCHMARK``."""
    command: bool = True
    """Whether it has a subcommand."""

    @functools.cached_property
    def benchmark(self) -> Benchmark[Any]:
        """Its declaration."""
        return cast("Benchmark[Any]", import_module(self.module).BENCHMARK)


class Suite(Protocol):
    """The module that an entry point names."""

    BENCHMARKS: Sequence[Entry]
    TRANSPORTS: Sequence[Transport]
    """Transports that ``bench tensor`` compares beside its own."""

    def page_parts(self, runs: Sequence[Run]) -> Iterator[str]:
        """Make what the page of ``farwrite report`` has beside the parts of single benchmarks."""


BENCHMARKS = (
    Entry("tensor", "farwrite_bench.tensor.benchmark"),
    Entry("p2p", "farwrite_bench.p2p.benchmark"),
    Entry("peers", "farwrite_bench.peers.benchmark"),
    Entry("gpu", "farwrite_bench.gpu.benchmark"),
    Entry("box", "farwrite_bench.box.benchmark"),
    Entry("grpc", "farwrite_bench.grpc.benchmark"),
    Entry("step", "farwrite_bench.step.benchmark"),
    Entry("feed", "farwrite_bench.feed.benchmark"),
    Entry("collective", "farwrite_bench.collective.benchmark"),
    Entry("assign", "farwrite_bench.assign.benchmark"),
    Entry("memory", "farwrite_bench.memory"),
    Entry("start", "farwrite_bench.start"),
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
