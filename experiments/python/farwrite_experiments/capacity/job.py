"""What is predicted: a training job, and the place where it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from farwrite_experiments.cluster.link import Link
from farwrite_experiments.networks.outline import Layer

FORWARD = 1 / 3
"""The forward pass's share of a layer's computation."""


@dataclass(frozen=True)
class Stage:
    """A layer: what a worker needs before it computes, and for how long it computes."""

    variables: tuple[int, ...]
    """Bytes of each variable, and of its gradient."""
    forward_s: float
    backward_s: float


@dataclass(frozen=True)
class Job:
    """A training job with parameter servers.

    Variables are placed on the servers in turn.
    """

    stages: tuple[Stage, ...]
    """In the order of the forward pass."""
    workers: int
    servers: int
    sync: bool = True
    """Whether a step waits for all workers, and applies the mean of their gradients."""
    straggler: float = 1.0
    """How many times longer the computation of one of the workers takes."""

    @property
    def compute_s(self) -> float:
        """Seconds of a worker's computation in a step."""
        return sum(stage.forward_s + stage.backward_s for stage in self.stages)


@dataclass(frozen=True)
class Site:
    """Where a job runs: a server and a worker on each machine, as long as there are both."""

    link: Link | None
    """Of each machine; None if nothing limits it."""
    cores: int
    """The processors of a machine, or of all of them together."""
    one_host: bool = False
    """Whether all machines share the processors of one host."""
    accelerated: bool = False
    """Whether an accelerator computes, so that layers take no processor."""
    name: str = ""
    """In words, of a paper's cluster."""


def stages(layers: Sequence[Layer], compute_s: float) -> tuple[Stage, ...]:
    """Divide a step's computation among the layers by their multiplications."""
    total = sum(layer.operations for layer in layers)
    return tuple(
        Stage(
            tuple(variable.bytes for variable in layer.variables),
            FORWARD * compute_s * layer.operations / total,
            (1 - FORWARD) * compute_s * layer.operations / total,
        )
        for layer in layers
    )
