"""The list of benchmarks: of this distribution, and of others that add to it.

A distribution adds benchmarks by an entry point of the group ``farwrite.benchmarks``. It names a
module with the list ``BENCHMARKS`` and with ``page_parts(runs)``, which adds to the page of
``farwrite report``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from farwrite_bench.report.files import Run
    from farwrite_bench.report.parts import Section

GROUP = "farwrite.benchmarks"


@dataclass(frozen=True)
class Benchmark:
    """One benchmark. Its modules are imported when they are used."""

    name: str
    """The name in its JSON files, and of its subcommand of ``farwrite bench``."""
    section: str
    """The module of its part of the page, a `Section`."""
    command: str | None = None
    """The module that adds the subcommand with ``add_parser(subparsers)``, if there is one."""

    @functools.cached_property
    def page_section(self) -> Section:
        """The part of the page."""
        return cast("Section", import_module(self.section))


class Suite(Protocol):
    """The module that an entry point names."""

    BENCHMARKS: Sequence[Benchmark]

    def page_parts(self, runs: Sequence[Run]) -> Iterator[str]:
        """Make what the page has beside the parts of single benchmarks."""


def _own(name: str, command: str) -> Benchmark:
    return Benchmark(name, f"farwrite_bench.report.sections.{name}", f"farwrite_bench.{command}")


BENCHMARKS = (
    _own("tensor", "tensor.command"),
    _own("p2p", "p2p_command"),
    _own("peers", "peers.command"),
    _own("gpu", "gpu.command"),
    _own("box", "box.command"),
    _own("grpc", "grpc.command"),
    _own("step", "step.command"),
    _own("feed", "feed.command"),
    _own("collective", "collective.command"),
    _own("assign", "assign.command"),
    _own("memory", "memory_command"),
)


@functools.cache
def suites() -> tuple[Suite, ...]:
    """Load what other distributions add."""
    return tuple(
        cast("Suite", entry.load())
        for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name)
    )


@functools.cache
def benchmarks() -> Mapping[str, Benchmark]:
    """Return all benchmarks by name, in the order of the page."""
    found = [each for suite in suites() for each in suite.BENCHMARKS]
    return {each.name: each for each in (*found, *BENCHMARKS)}
