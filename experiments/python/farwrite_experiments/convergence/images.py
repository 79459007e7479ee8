"""Image recognition: the network of TensorFlow's tutorial for CIFAR-10."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from farwrite_experiments.convergence.data import cifar10, mnist_idx
from farwrite_experiments.convergence.data.choose import CIFAR10, IMAGES, MNIST_IDX, Data
from farwrite_experiments.convergence.model import Batch, Model
from farwrite_experiments.convergence.weights import Reads
from farwrite_experiments.networks.gpu_class import milliseconds
from farwrite_experiments.networks.network import Network
from farwrite_experiments.networks.outline import Outline, Value
from farwrite_experiments.networks.real import RealNetwork

SIDE, CHANNELS, CLASSES = 24, 3, 10
"""The middle of an image, which the network sees."""
SAMPLE = (SIDE, SIDE, CHANNELS)


def layers(net: Outline, images: Value, classes: int) -> list[Value]:
    """Add the layers: two convolutions and three dense ones."""
    value = net.convolution(images, "conv1", (5, 5), 64)
    value = net.pool(value, 3, 2, padding="SAME")
    value = net.convolution(value, "conv2", (5, 5), 64)
    value = net.pool(value, 3, 2, padding="SAME")
    value = net.dense(value, "local3", 384)
    value = net.dense(value, "local4", 192)
    return [net.dense(value, "softmax", classes, activated=False)]


class Images(Model):
    """The task. Its quality is the share of images whose class it names."""

    key, name = IMAGES, "image recognition"
    batch, rate = 32, 1e-3
    measure, more_is_better = "accuracy", True
    target, targets = 0.98, {CIFAR10: 0.6, MNIST_IDX: 0.98}

    def __init__(self) -> None:
        outline = Outline()
        layers(outline, Value(SAMPLE), CLASSES)
        self.variables = outline.variables
        self._operations = sum(layer.operations for layer in outline.layers)

    def records(self, tf: Any, data: Data, files: Sequence[str]) -> Any:
        """Return the dataset of the images and labels, as bytes."""
        return _format(data).records(tf, files)

    def decoded(self, tf: Any, data: Data, batches: Any) -> Any:
        """Return the dataset of the middle of the images, from -1 to 1, and the labels."""

        def decode(*records: Any) -> Batch:
            images, labels = _format(data).decode(tf, *records)
            margin = (images.shape[1] - SIDE) // 2
            middle = images[:, margin : margin + SIDE, margin : margin + SIDE]
            return tf.cast(middle, tf.float32) / 127.5 - 1.0, labels

        return batches.map(decode)

    def loss(self, tf: Any, reads: Reads, batch: Batch) -> Any:
        """Build the mean cross entropy."""
        images, labels = batch
        return tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=labels, logits=self._logits(tf, reads, images)
            )
        )

    def quality(self, tf: Any, reads: Reads, batch: Batch) -> Any:
        """Build the accuracy."""
        images, labels = batch
        named = tf.argmax(self._logits(tf, reads, images), axis=-1, output_type=tf.int32)
        return tf.reduce_mean(tf.cast(tf.equal(named, labels), tf.float32))

    def network(self, longest: Sequence[float]) -> Network:
        """Return the outline."""
        return Network(self.key, self.name, SAMPLE, CLASSES, milliseconds(self._operations), layers)

    def _logits(self, tf: Any, reads: Reads, images: Any) -> Any:
        net = RealNetwork(tf, reads.value, lambda _: nullcontext())
        (output,) = layers(net, Value(SAMPLE, images), CLASSES)
        return output.tensor


def _format(data: Data) -> Any:
    return cifar10 if data.format == CIFAR10 else mnist_idx
