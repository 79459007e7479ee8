"""The layers of one worker, real or emulated, and the gradients that they compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from farwrite_experiments.library import load_ops
from farwrite_experiments.networks.outline import Value, Variable
from farwrite_experiments.networks.real import RealNetwork, loss, synthetic
from farwrite_experiments.train.emulated import emulated_gradients
from farwrite_experiments.train.placement import Placement
from farwrite_experiments.train.plan import EMULATED, MODEL, Case


def gradients_of(
    tf: Any, case: Case, value: Callable[[Variable], Any], placement: Placement, worker: int
) -> dict[Variable, Any]:
    """Build the forward and the backward pass of a worker in the current graph.

    Parameters
    ----------
    value : callable
        Returns the tensor with the value of a variable.

    Returns
    -------
    dict
        The gradient of each variable.
    """
    if case.compute == EMULATED:
        return emulated_gradients(tf, load_ops(), case, value, placement, worker)
    network = case.network
    built = RealNetwork(tf, value, lambda layer: placement.layer(worker, layer))
    with placement.layer(worker, 0):
        samples, labels = synthetic(tf, network.sample, case.batch, network.classes, worker)
    outputs = network.add_to(built, Value(network.sample, samples), network.classes)
    with placement.layer(worker, len(built.layers) - 1):
        total = loss(tf, outputs, labels)
    values = [value(each) for each in network.variables]
    with placement.layer(worker, 0):
        # A half of a model computes its own gradients.
        beside = case.mode == MODEL
        gradients = tf.compat.v1.gradients(total, values, colocate_gradients_with_ops=beside)
    return dict(zip(network.variables, gradients, strict=True))
