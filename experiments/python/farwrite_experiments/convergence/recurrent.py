"""An LSTM over sequences of different lengths, as a loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from farwrite_experiments.networks.outline import Variable

FORGET = 1.0
"""What is added to the forget gate, so that a new cell keeps its memory."""
Read = Callable[[Variable], Any]


@dataclass(frozen=True)
class Cell:
    """The variables of an LSTM cell. The four gates share each matrix."""

    name: str
    inputs: int
    hidden: int

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The matrix of the inputs, the matrix of the state, and the offset."""
        shapes = {"wx": (self.inputs,), "wh": (self.hidden,), "b": ()}
        return tuple(
            Variable(f"{self.name}/{end}", (*shape, 4 * self.hidden))
            for end, shape in shapes.items()
        )


@dataclass(frozen=True)
class Sequence:
    """What an LSTM returns."""

    outputs: Any
    """Of shape (longest, batch, hidden)."""
    state: Any
    """Behind the last word of each line, (batch, hidden)."""
    memory: Any
    """The same of the memory."""


def lstm(
    tf: Any, cell: Cell, read: Read, inputs: Any, lengths: Any, first: tuple[Any, Any] | None = None
) -> Sequence:
    """Build an LSTM.

    Parameters
    ----------
    tf : module
        TensorFlow.
    read : callable
        Returns the tensor with the value of a variable.
    inputs : Tensor
        Of shape (batch, longest, cell.inputs). `longest` may differ from step to step.
    lengths : Tensor
        The words of each line. Behind them, the state stays as it is.
    first : tuple of Tensor, optional
        The first state and memory, (batch, hidden) each; zero if None.
    """
    count, longest = tf.shape(inputs)[0], tf.shape(inputs)[1]
    batch = inputs.shape[0]  # None if it differs from step to step
    of_input, of_state, offset = map(read, cell.variables)
    # All inputs at once: only the state's matrix is needed in the loop.
    flat = tf.reshape(tf.transpose(inputs, [1, 0, 2]), [-1, cell.inputs])
    given = tf.reshape(tf.matmul(flat, of_input) + offset, [longest, count, 4 * cell.hidden])
    shape = [batch, cell.hidden]
    by_time = tf.TensorArray(tf.float32, longest, element_shape=[batch, 4 * cell.hidden])
    by_time = by_time.unstack(given)
    outputs = tf.TensorArray(tf.float32, longest, element_shape=shape)
    zero = tf.zeros([count, cell.hidden])
    zero.set_shape(shape)

    def step(number: Any, state: Any, memory: Any, outputs: Any) -> tuple[Any, ...]:
        gates = by_time.read(number) + tf.matmul(state, of_state)
        taken, kept, shown, new = tf.split(gates, 4, axis=-1)
        later = tf.sigmoid(kept + FORGET) * memory + tf.sigmoid(taken) * tf.tanh(new)
        output = tf.sigmoid(shown) * tf.tanh(later)
        lives = tf.expand_dims(number < lengths, 1)
        state, memory = tf.where(lives, output, state), tf.where(lives, later, memory)
        return number + 1, state, memory, outputs.write(number, state)

    _, state, memory, outputs = tf.while_loop(
        lambda number, *_: number < longest,
        step,
        (tf.constant(0), *(first or (zero, zero)), outputs),
        maximum_iterations=longest,
    )
    stacked = outputs.stack()
    stacked.set_shape([None, *shape])
    return Sequence(stacked, state, memory)
