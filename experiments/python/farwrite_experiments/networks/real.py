"""Networks as TensorFlow graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from farwrite_experiments.networks.outline import Outline, Read, Shape, Value


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
        read: Read,
        place: Callable[[int], AbstractContextManager[Any]],
    ) -> None:
        super().__init__()
        self._tf, self._read, self._place = tf, read, place

    def _value(self, shape: Shape, build: Callable[[Any, Read], Any]) -> Value:
        with self._place(max(len(self.layers) - 1, 0)):
            return Value(shape, build(self._tf, self._read))


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
