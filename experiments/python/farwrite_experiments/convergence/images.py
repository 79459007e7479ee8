"""Image recognition: the network of TensorFlow's tutorial for CIFAR-10."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from farwrite_experiments.convergence.data import cifar10, mnist_idx
from farwrite_experiments.convergence.data.data import CIFAR10, Data
from farwrite_experiments.convergence.model import AHEAD, Batch, Share, in_order, one_batch
from farwrite_experiments.convergence.weights import Reads
from farwrite_experiments.networks.gpu_class import milliseconds
from farwrite_experiments.networks.network import Network
from farwrite_experiments.networks.outline import Outline, Value, Variable
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


class Images:
    """The model. Its quality is the share of images whose class it names."""

    tables: Sequence[Variable] = ()

    def __init__(self) -> None:
        outline = Outline()
        layers(outline, Value(SAMPLE), CLASSES)
        self.variables: Sequence[Variable] = outline.variables
        self._operations = sum(layer.operations for layer in outline.layers)

    def batches(self, tf: Any, data: Data, batch: int, share: Share, seed: Any) -> Any:
        """Return the dataset of a worker's batches: images and labels."""
        mine = in_order(_records(tf, data, data.train), share, seed)
        whole = mine.batch(batch, drop_remainder=True)
        return whole.map(lambda *records: _decoded(tf, data, *records)).prefetch(AHEAD)

    def held_out(self, tf: Any, data: Data) -> Any:
        """Return the dataset of the held-out images."""
        records = one_batch(_records(tf, data, data.test))
        return records.map(lambda *each: _decoded(tf, data, *each)).cache().repeat()

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

    def longest(self, tf: Any, batch: Batch) -> list[Any]:
        """Return nothing: an image has no length."""
        del tf, batch
        return []

    def network(self, batch: int, longest: Sequence[float]) -> Network:
        """Return the outline."""
        del batch, longest
        return Network(
            "images", "CIFAR-10 CNN", SAMPLE, CLASSES, milliseconds(self._operations), layers
        )

    def _logits(self, tf: Any, reads: Reads, images: Any) -> Any:
        net = RealNetwork(tf, reads.value, lambda _: nullcontext())
        (output,) = layers(net, Value(SAMPLE, images), CLASSES)
        return output.tensor


def _records(tf: Any, data: Data, files: Sequence[str]) -> Any:
    return (cifar10 if data.format == CIFAR10 else mnist_idx).records(tf, files)


def _decoded(tf: Any, data: Data, *records: Any) -> tuple[Any, Any]:
    """Return the middle of the images, from -1 to 1, and the labels."""
    decode = cifar10.decode if data.format == CIFAR10 else mnist_idx.decode
    images, labels = decode(tf, *records)
    margin = (images.shape[1] - SIDE) // 2
    middle = images[:, margin : margin + SIDE, margin : margin + SIDE]
    return tf.cast(middle, tf.float32) / 127.5 - 1.0, labels
