"""The experiments, as benchmarks of ``farwrite bench`` and of its page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from farwrite_bench.benchmarks import Entry
from farwrite_experiments.rpc_over_fabric import RPC_OVER_FABRIC

if TYPE_CHECKING:
    from farwrite_bench.report.files import Run


def _entry(name: str, module: str | None) -> Entry:
    found = None if module is None else f"farwrite_experiments.{module}"
    return Entry(name, found, f"farwrite_experiments.sections.{name}")


BENCHMARKS = (
    _entry("train", "train.command"),
    _entry("scaling", "scaling.command"),
    _entry("convergence", "convergence.command"),
    _entry("ablations", "ablations"),
    _entry("sizes", "sizes.command"),
    _entry("plan", None),  # of `farwrite plan`
)
TRANSPORTS = (RPC_OVER_FABRIC,)


def page_parts(runs: Sequence[Run]) -> Iterator[str]:
    """Make the part of the page with the papers' own figures."""
    from farwrite_experiments.papers import page

    return page.parts(runs)
