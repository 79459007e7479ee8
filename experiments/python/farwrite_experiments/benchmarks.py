"""The experiments, as benchmarks of ``farwrite bench`` and of its page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from farwrite_bench.benchmarks import Entry
from farwrite_experiments.rpc_over_fabric import RPC_OVER_FABRIC

if TYPE_CHECKING:
    from farwrite_bench.report.files import Run

BENCHMARKS = (
    Entry("train", "farwrite_experiments.train.benchmark"),
    Entry("scaling", "farwrite_experiments.scaling.benchmark"),
    Entry("convergence", "farwrite_experiments.convergence.benchmark"),
    Entry("ablations", "farwrite_experiments.ablations"),
    Entry("sizes", "farwrite_experiments.sizes"),
    Entry("plan", "farwrite_experiments.capacity.benchmark", command=False),  # `farwrite plan`
)
TRANSPORTS = (RPC_OVER_FABRIC,)


def page_parts(runs: Sequence[Run]) -> Iterator[str]:
    """Make the part of the page with the papers' own figures."""
    from farwrite_experiments.papers import page

    return page.parts(runs)
