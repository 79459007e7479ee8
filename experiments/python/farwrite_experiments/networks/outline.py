"""Outlines of networks: layers with their variables, operations and outputs, without TensorFlow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

ELEMENT_BYTES = 4
"""All variables and activations are float32."""
SAME, VALID = "SAME", "VALID"

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Variable:
    """A trainable variable."""

    name: str
    shape: Shape

    @property
    def elements(self) -> int:
        """The number of its elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Its size."""
        return ELEMENT_BYTES * self.elements


@dataclass(frozen=True)
class Layer:
    """A layer with variables."""

    name: str
    variables: tuple[Variable, ...]
    operations: int
    """Multiplications of the forward pass of one sample."""
    output: Shape
    """The shape of its output for one sample."""


@dataclass(frozen=True)
class Value:
    """A value between two layers."""

    shape: Shape
    """The shape for one sample."""
    tensor: Any = None
    """TensorFlow's tensor, with the batch as the first dimension; None in an outline."""


class Outline:
    """Records the layers that a network adds. It has no tensors."""

    def __init__(self) -> None:
        self.layers: list[Layer] = []

    @property
    def variables(self) -> list[Variable]:
        """All variables, in the order of their creation."""
        return [variable for layer in self.layers for variable in layer.variables]

    def convolution(
        self,
        value: Value,
        name: str,
        kernel: tuple[int, int],
        outputs: int,
        *,
        stride: int = 1,
        padding: str = SAME,
        normalized: bool = False,
        activated: bool = True,
    ) -> Value:
        """Add a convolution with a bias, or with batch normalization and its offset `beta`."""
        height, width, inputs = value.shape
        shape = (
            _places(height, kernel[0], stride, padding),
            _places(width, kernel[1], stride, padding),
            outputs,
        )
        weights = Variable(f"{name}/w", (*kernel, inputs, outputs))
        offset = Variable(f"{name}/beta" if normalized else f"{name}/b", (outputs,))
        self._add(name, (weights, offset), weights.elements * shape[0] * shape[1], shape)
        how = (stride, padding, normalized, activated)
        return self._value(shape, "_convolution", value, weights, offset, *how)

    def dense(self, value: Value, name: str, outputs: int, *, activated: bool = True) -> Value:
        """Add a fully connected layer behind a flattened value."""
        weights = Variable(f"{name}/w", (math.prod(value.shape), outputs))
        offset = Variable(f"{name}/b", (outputs,))
        self._add(name, (weights, offset), weights.elements, (outputs,))
        return self._value((outputs,), "_dense", value, weights, offset, activated)

    def recurrent(self, value: Value, name: str, gates: int, hidden: int) -> Value:
        """Add a recurrent layer over a sequence; the output is its last state.

        With 4 gates it is an LSTM, with 3 a GRU. Each gate has two matrices and an offset.
        """
        steps, inputs = value.shape
        variables = tuple(
            each
            for gate in range(gates)
            for each in (
                Variable(f"{name}/wx{gate}", (inputs, hidden)),
                Variable(f"{name}/wh{gate}", (hidden, hidden)),
                Variable(f"{name}/b{gate}", (hidden,)),
            )
        )
        operations = steps * sum(each.elements for each in variables if len(each.shape) == 2)
        self._add(name, variables, operations, (hidden,))
        return self._value((hidden,), "_recurrent", value, variables, steps, hidden)

    def pool(
        self, value: Value, kernel: int, stride: int, *, padding: str = VALID, mean: bool = False
    ) -> Value:
        """Take the highest value of each window, or the mean."""
        height, width, channels = value.shape
        shape = (
            _places(height, kernel, stride, padding),
            _places(width, kernel, stride, padding),
            channels,
        )
        return self._value(shape, "_pool", value, kernel, stride, padding, mean)

    def joined(self, values: Sequence[Value]) -> Value:
        """Join the channels of several values."""
        channels = sum(value.shape[-1] for value in values)
        return self._value((*values[0].shape[:-1], channels), "_joined", *values)

    def _add(self, name: str, variables: tuple[Variable, ...], operations: int, to: Shape) -> None:
        self.layers.append(Layer(name, variables, operations, to))

    def _value(self, shape: Shape, operation: str, *_: Any) -> Value:
        """Return the value of this shape that a method of `RealNetwork` computes."""
        del operation
        return Value(shape)


def _places(size: int, kernel: int, stride: int, padding: str) -> int:
    """Return how often a window fits into one dimension."""
    return math.ceil((size if padding == SAME else size - kernel + 1) / stride)
