"""The experiments, as benchmarks of ``farwrite bench`` and of its page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from farwrite_bench.benchmarks import Entry

if TYPE_CHECKING:
    from farwrite_bench.cluster.transport import Transport
    from farwrite_bench.report.files import Run

BENCHMARKS = (
    Entry(
        "train", "farwrite_experiments.train.benchmark", "train the papers' networks in TensorFlow"
    ),
    Entry(
        "scaling",
        "farwrite_experiments.scaling.benchmark",
        "train the papers' networks on more and more machines",
    ),
    Entry(
        "convergence",
        "farwrite_experiments.convergence.benchmark",
        "measure the time to a stated quality in training",
    ),
    Entry(
        "ablations",
        "farwrite_experiments.ablations",
        "measure what each way to send a tensor gains",
    ),
    Entry(
        "sizes",
        "farwrite_experiments.sizes",
        "show the sizes of the tensors of the papers' networks",
    ),
    Entry(
        "plan",
        "farwrite_experiments.capacity.benchmark",
        "predict a training step on more workers, and what limits it",
        command=False,
    ),  # `farwrite plan`
)


def transports() -> Sequence[Transport]:
    """Return what ``bench tensor`` compares beside its own transports."""
    from farwrite_experiments.rpc_over_fabric import RPC_OVER_FABRIC

    return (RPC_OVER_FABRIC,)


def page_parts(runs: Sequence[Run]) -> Iterator[str]:
    """Make the part of the page with the papers' own figures."""
    from farwrite_experiments.papers import page

    return page.parts(runs)
