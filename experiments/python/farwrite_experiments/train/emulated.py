"""A worker's layers with emulated computation.

Each layer is two operations of the library `farwrite_experiments.library`: one in the forward
pass, which reads the layer's variables as they arrive, and one in the backward pass, which writes
the layer's gradients. Each takes its share of the network's time by its multiplications; the
backward pass has two for each one of the forward pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from farwrite_experiments.networks.outline import Layer, Shape, Variable
from farwrite_experiments.train.placement import Placement
from farwrite_experiments.train.plan import MODEL, Case

FORWARD = 1 / 3
"""The forward pass's share of the multiplications."""


def emulated_gradients(
    tf: Any,
    ops: Any,
    case: Case,
    value: Callable[[Variable], Any],
    placement: Placement,
    worker: int,
) -> dict[Variable, Any]:
    """Build the passes of one worker; return its gradients."""
    layers = case.network.layers
    times = _times(case, layers)
    with placement.layer(worker, 0):
        token = tf.zeros([])
    tokens = []
    for number, layer in enumerate(layers):
        with placement.layer(worker, number):
            (token,) = _compute(
                ops,
                FORWARD * times[number],
                read=[token, *map(value, layer.variables)],
                held=[],
                shapes=[_passed_on(case, placement, layers, number)],
            )
            tokens.append(token)
    gradients: dict[Variable, Any] = {}
    for number in reversed(range(len(layers))):
        layer = layers[number]
        with placement.layer(worker, number):
            token, *written = _compute(
                ops,
                (1 - FORWARD) * times[number],
                # The layer's input, and what the layer behind passed back.
                read=[token, tokens[number - 1]] if number else [token],
                # A layer's backward pass needs its variables, so they stay here until then.
                held=[value(variable) for variable in layer.variables],
                shapes=[
                    _passed_on(case, placement, layers, number - 1),
                    *(variable.shape for variable in layer.variables),
                ],
            )
        gradients.update(zip(layer.variables, written, strict=True))
    return gradients


def _compute(
    ops: Any, milliseconds: float, read: list[Any], held: list[Any], shapes: list[Shape]
) -> list[Any]:
    written: list[Any] = ops.farwrite_emulated_compute(
        read=read, held=held, shapes=shapes, M=len(shapes), milliseconds=milliseconds
    )
    return written


def _times(case: Case, layers: list[Layer]) -> list[float]:
    total = sum(layer.operations for layer in layers)
    assert case.compute_ms is not None
    return [case.compute_ms * layer.operations / total for layer in layers]


def _passed_on(case: Case, placement: Placement, layers: list[Layer], number: int) -> Shape:
    """Return the shape of what layer `number` passes on.

    Between layers of one task it is a number; between the halves of a model it is the activations.
    """
    if case.mode != MODEL or number < 0 or number + 1 >= len(layers):
        return ()
    crosses = placement.half(number) != placement.half(number + 1)
    return (case.batch, *layers[number].output) if crosses else ()
