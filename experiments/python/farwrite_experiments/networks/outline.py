"""Outlines of networks: layers with their variables, operations and outputs.

A layer knows how TensorFlow computes it, which nothing here imports.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

ELEMENT_BYTES = 4
"""All variables and activations are float32."""
SAME, VALID = "SAME", "VALID"

LSTM_GATES = 4
_EPSILON = 1e-3
"""What batch normalization adds to the variance."""

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


Read = Callable[[Variable], Any]
"""Returns the tensor with the value of a variable."""


class Outline:
    """Records the layers that a network adds. It has no tensors; a `RealNetwork` builds them."""

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

        def build(tf: Any, read: Read) -> Any:
            tensor = tf.nn.conv2d(value.tensor, read(weights), stride, padding)
            if normalized:
                mean, variance = tf.nn.moments(tensor, axes=[0, 1, 2])
                tensor = (tensor - mean) * tf.math.rsqrt(variance + _EPSILON)
            moved = tensor + read(offset)
            return tf.nn.relu(moved) if activated else moved

        return self._value(shape, build)

    def dense(self, value: Value, name: str, outputs: int, *, activated: bool = True) -> Value:
        """Add a fully connected layer behind a flattened value."""
        weights = Variable(f"{name}/w", (math.prod(value.shape), outputs))
        offset = Variable(f"{name}/b", (outputs,))
        self._add(name, (weights, offset), weights.elements, (outputs,))

        def build(tf: Any, read: Read) -> Any:
            flat = tf.reshape(value.tensor, [-1, weights.shape[0]])
            moved = tf.matmul(flat, read(weights)) + read(offset)
            return tf.nn.relu(moved) if activated else moved

        return self._value((outputs,), build)

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

        def build(tf: Any, read: Read) -> Any:
            values = [read(variable) for variable in variables]
            of_input, of_state, offset = (tf.concat(values[part::3], axis=-1) for part in range(3))
            zero = tf.zeros([tf.shape(value.tensor)[0], hidden])
            sequence = tf.transpose(tf.matmul(value.tensor, of_input) + offset, [1, 0, 2])
            cell = _lstm_cell if gates == LSTM_GATES else _gru_cell

            def step(number: Any, state: Any, memory: Any) -> tuple[Any, Any, Any]:
                return number + 1, *cell(tf, sequence[number], of_state, state, memory)

            _, state, _ = tf.while_loop(
                lambda number, *_: number < steps,
                step,
                (tf.constant(0), zero, zero),
                maximum_iterations=steps,
            )
            state.set_shape([None, hidden])
            return state

        return self._value((hidden,), build)

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

        def build(tf: Any, _: Read) -> Any:
            pool = tf.nn.avg_pool2d if mean else tf.nn.max_pool2d
            return pool(value.tensor, kernel, stride, padding)

        return self._value(shape, build)

    def joined(self, values: Sequence[Value]) -> Value:
        """Join the channels of several values."""
        shape = (*values[0].shape[:-1], sum(value.shape[-1] for value in values))
        return self._value(
            shape, lambda tf, _: tf.concat([value.tensor for value in values], axis=-1)
        )

    def _add(self, name: str, variables: tuple[Variable, ...], operations: int, to: Shape) -> None:
        self.layers.append(Layer(name, variables, operations, to))

    def _value(self, shape: Shape, build: Callable[[Any, Read], Any]) -> Value:
        """Return a value of this shape. `build` would make its tensor, of TensorFlow's module."""
        del build
        return Value(shape)


def _places(size: int, kernel: int, stride: int, padding: str) -> int:
    """Return how often a window fits into one dimension."""
    return math.ceil((size if padding == SAME else size - kernel + 1) / stride)


def _lstm_cell(tf: Any, given: Any, of_state: Any, state: Any, memory: Any) -> tuple[Any, Any]:
    taken, kept, shown, new = tf.split(given + tf.matmul(state, of_state), 4, axis=-1)
    memory = tf.sigmoid(kept) * memory + tf.sigmoid(taken) * tf.tanh(new)
    return tf.sigmoid(shown) * tf.tanh(memory), memory


def _gru_cell(tf: Any, given: Any, of_state: Any, state: Any, memory: Any) -> tuple[Any, Any]:
    updated, reset, new = tf.split(given, 3, axis=-1)
    of_updated, of_reset, of_new = tf.split(tf.matmul(state, of_state), 3, axis=-1)
    updated = tf.sigmoid(updated + of_updated)
    new = tf.tanh(new + tf.sigmoid(reset + of_reset) * of_new)
    return updated * state + (1.0 - updated) * new, memory
