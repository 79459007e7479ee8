"""Which task has which variable and which layer."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from farwrite_experiments.networks.outline import Layer
from farwrite_experiments.train.plan import MODEL, Case

Device = AbstractContextManager[Any]


class Placement:
    """Device scopes for the parts of a case's graph.

    Parameters
    ----------
    tf : module
        TensorFlow.
    case : Case
        The case.
    cluster : bool
        Whether there are tasks. Otherwise one process has everything.
    """

    def __init__(self, tf: Any, case: Case, *, cluster: bool) -> None:
        self._tf, self._case, self._cluster = tf, case, cluster
        layers = case.network.layers
        self._split = split(layers)
        self._owners = [number for number, layer in enumerate(layers) for _ in layer.variables]

    def layer(self, worker: int, number: int) -> Device:
        """Return the device of the task that computes layer `number` for `worker`."""
        return self._task("worker", self.half(number) if self._case.mode == MODEL else worker)

    def half(self, number: int) -> int:
        """Return the half of the model, 0 or 1, that has layer `number`."""
        return int(number >= self._split)

    def variable(self, number: int) -> Device:
        """Return the device of a variable: servers in turn, or the worker that has its layer."""
        if self._case.mode == MODEL:
            return self.layer(0, self._owners[number])
        return self._task("ps", number % self._case.servers)

    def _task(self, job: str, number: int) -> Device:
        if not self._cluster:
            return nullcontext()
        device: Device = self._tf.device(f"/job:{job}/task:{number}")
        return device


def split(layers: list[Layer]) -> int:
    """Return the number of the first layer of a model's second half, by operations."""
    half = sum(layer.operations for layer in layers) / 2
    done = 0
    for number, layer in enumerate(layers):
        done += layer.operations
        if done >= half:
            return min(number + 1, len(layers) - 1)
    return len(layers) - 1
