"""Networks as TensorFlow graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from farwrite_experiments.networks.outline import Outline, Shape, Value, Variable

LSTM_GATES = 4
_EPSILON = 1e-3
"""What batch normalization adds to the variance."""


class RealNetwork(Outline):
    """Builds the graph of the forward pass while a network adds its layers.

    Parameters
    ----------
    tf : module
        TensorFlow.
    read : callable
        Returns the tensor with the value of a variable.
    place : callable
        Returns the device scope of the layer with a number, counted from 0.
    """

    def __init__(
        self,
        tf: Any,
        read: Callable[[Variable], Any],
        place: Callable[[int], AbstractContextManager[Any]],
    ) -> None:
        super().__init__()
        self._tf = tf
        self._read = read
        self._place = place

    def _value(self, shape: Shape, operation: str, *arguments: Any) -> Value:
        with self._place(max(len(self.layers) - 1, 0)):
            return Value(shape, getattr(self, operation)(*arguments))

    def _convolution(
        self,
        value: Value,
        weights: Variable,
        offset: Variable,
        stride: int,
        padding: str,
        normalized: bool,
        activated: bool,
    ) -> Any:
        tf = self._tf
        tensor = tf.nn.conv2d(value.tensor, self._read(weights), stride, padding)
        if normalized:
            mean, variance = tf.nn.moments(tensor, axes=[0, 1, 2])
            tensor = (tensor - mean) * tf.math.rsqrt(variance + _EPSILON)
        return self._moved(tensor, offset, activated)

    def _dense(self, value: Value, weights: Variable, offset: Variable, activated: bool) -> Any:
        flat = self._tf.reshape(value.tensor, [-1, weights.shape[0]])
        return self._moved(self._tf.matmul(flat, self._read(weights)), offset, activated)

    def _moved(self, tensor: Any, offset: Variable, activated: bool) -> Any:
        moved = tensor + self._read(offset)
        return self._tf.nn.relu(moved) if activated else moved

    def _pool(self, value: Value, kernel: int, stride: int, padding: str, mean: bool) -> Any:
        pool = self._tf.nn.avg_pool2d if mean else self._tf.nn.max_pool2d
        return pool(value.tensor, kernel, stride, padding)

    def _joined(self, *values: Value) -> Any:
        return self._tf.concat([value.tensor for value in values], axis=-1)

    def _recurrent(
        self, value: Value, variables: Sequence[Variable], steps: int, hidden: int
    ) -> Any:
        tf = self._tf
        gates = len(variables) // 3
        values = [self._read(variable) for variable in variables]
        of_input, of_state, offset = (tf.concat(values[part::3], axis=-1) for part in range(3))
        batch = tf.shape(value.tensor)[0]
        sequence = tf.transpose(tf.matmul(value.tensor, of_input) + offset, [1, 0, 2])
        zero = tf.zeros([batch, hidden])
        cell = self._lstm_cell if gates == LSTM_GATES else self._gru_cell

        def step(number: Any, state: Any, memory: Any) -> tuple[Any, Any, Any]:
            return number + 1, *cell(sequence[number], of_state, state, memory)

        _, state, _ = tf.while_loop(
            lambda number, *_: number < steps,
            step,
            (tf.constant(0), zero, zero),
            maximum_iterations=steps,
        )
        state.set_shape([None, hidden])
        return state

    def _lstm_cell(self, given: Any, of_state: Any, state: Any, memory: Any) -> tuple[Any, Any]:
        tf = self._tf
        taken, kept, shown, new = tf.split(given + tf.matmul(state, of_state), 4, axis=-1)
        memory = tf.sigmoid(kept) * memory + tf.sigmoid(taken) * tf.tanh(new)
        return tf.sigmoid(shown) * tf.tanh(memory), memory

    def _gru_cell(self, given: Any, of_state: Any, state: Any, memory: Any) -> tuple[Any, Any]:
        tf = self._tf
        updated, reset, new = tf.split(given, 3, axis=-1)
        of_updated, of_reset, of_new = tf.split(tf.matmul(state, of_state), 3, axis=-1)
        updated = tf.sigmoid(updated + of_updated)
        new = tf.tanh(new + tf.sigmoid(reset + of_reset) * of_new)
        return updated * state + (1.0 - updated) * new, memory


def loss(tf: Any, outputs: Sequence[Value], labels: Any) -> Any:
    """Return the mean cross entropy, added up over the classifiers."""
    losses = []
    for output in outputs:
        logits = tf.reshape(output.tensor, [-1, output.shape[-1]])
        losses.append(
            tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            )
        )
    return tf.add_n(losses)


def synthetic(tf: Any, sample: Shape, batch: int, classes: int, seed: int) -> tuple[Any, Any]:
    """Make data on the fly: samples and labels, new ones in each step."""
    samples = tf.random.uniform([batch, *sample], -1.0, 1.0, seed=seed)
    labels = tf.random.uniform([batch], 0, classes, dtype=tf.int32, seed=seed + 1)
    return samples, labels
