"""The experiments, as benchmarks of ``farwrite bench`` and of its page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from farwrite_bench.benchmarks import Benchmark

if TYPE_CHECKING:
    from farwrite_bench.report.files import Run


def _benchmark(name: str, command: str | None) -> Benchmark:
    module = None if command is None else f"farwrite_experiments.{command}"
    return Benchmark(name, f"farwrite_experiments.sections.{name}", module)


BENCHMARKS = (
    _benchmark("train", "train.command"),
    _benchmark("scaling", "scaling.command"),
    _benchmark("convergence", "convergence.command"),
    _benchmark("ablations", "ablations"),
    _benchmark("sizes", "sizes.command"),
    _benchmark("plan", None),  # of `farwrite plan`
)


def page_parts(runs: Sequence[Run]) -> Iterator[str]:
    """Make the part of the page with the papers' own figures."""
    from farwrite_experiments.papers import page

    return page.parts(runs)
