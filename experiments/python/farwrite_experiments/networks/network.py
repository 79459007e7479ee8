"""The networks by name, with what the papers say of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from farwrite_experiments.networks.inception import inception_v3
from farwrite_experiments.networks.outline import VALID, Layer, Outline, Shape, Value, Variable

CLASSES = 10
HIDDEN = 1024
"""The size of a recurrent network's state, and of the vectors of its sequence."""
SEQUENCE = 80
WORDS = 1000
"""The classes of the recurrent networks."""


@dataclass(frozen=True)
class Network:
    """A network, and the time that its computation took in the paper."""

    key: str
    name: str
    sample: Shape
    """The shape of one sample."""
    classes: int
    compute_ms: float
    """Milliseconds of the computation of one sample, on the paper's accelerator."""
    add_to: Callable[[Outline, Value, int], list[Value]]
    """Adds the layers; returns the classifiers' outputs."""
    batch_ms: float = 0.0
    """Milliseconds of the computation of a step that do not depend on the batch."""

    def outline(self) -> Outline:
        """Return the layers without TensorFlow."""
        outline = Outline()
        self.add_to(outline, Value(self.sample), self.classes)
        return outline

    @property
    def layers(self) -> list[Layer]:
        """The layers, in the order of the forward pass."""
        return self.outline().layers

    @property
    def variables(self) -> list[Variable]:
        """The variables, in the order of their creation."""
        return self.outline().variables

    @property
    def bytes(self) -> int:
        """The bytes of all variables."""
        return sum(variable.bytes for variable in self.variables)


def _alexnet(net: Outline, images: Value, classes: int) -> list[Value]:
    value = net.convolution(images, "conv1", (11, 11), 64, stride=4, padding=VALID)
    value = net.pool(value, 3, 2)
    value = net.convolution(value, "conv2", (5, 5), 192)
    value = net.pool(value, 3, 2)
    for name, outputs in (("conv3", 384), ("conv4", 384), ("conv5", 256)):
        value = net.convolution(value, name, (3, 3), outputs)
    value = net.pool(value, 3, 2)
    value = net.convolution(value, "fc6", (5, 5), 4096, padding=VALID)
    value = net.convolution(value, "fc7", (1, 1), 4096)
    return [net.convolution(value, "fc8", (1, 1), classes, activated=False)]


def _vgg16(net: Outline, images: Value, classes: int) -> list[Value]:
    value = images
    for block, (count, outputs) in enumerate([(2, 64), (2, 128), (3, 256), (3, 512), (3, 512)], 1):
        for number in range(1, count + 1):
            value = net.convolution(value, f"conv{block}_{number}", (3, 3), outputs)
        value = net.pool(value, 2, 2)
    value = net.dense(value, "fc6", 4096)
    value = net.dense(value, "fc7", 4096)
    return [net.dense(value, "fc8", classes, activated=False)]


def _lstm(net: Outline, sequence: Value, classes: int) -> list[Value]:
    state = net.recurrent(sequence, "lstm", 4, HIDDEN)
    return [net.dense(state, "out", classes, activated=False)]


def _gru(net: Outline, sequence: Value, classes: int) -> list[Value]:
    state = net.recurrent(sequence, "gru", 3, HIDDEN)
    return [net.dense(state, "out", classes, activated=False)]


def _fcn5(net: Outline, image: Value, classes: int) -> list[Value]:
    value = image
    for name in ("in", "hidden1", "hidden2", "hidden3"):
        value = net.dense(value, name, 4096)
    return [net.dense(value, "out", classes, activated=False)]


def _mnist_mlp(net: Outline, image: Value, classes: int) -> list[Value]:
    value = net.dense(image, "hidden", 100)
    return [net.dense(value, "out", classes, activated=False)]


_IMAGE = (224, 224, 3)
_DIGIT = (784,)
_WORDS = (SEQUENCE, HIDDEN)
ALEXNET = Network("alexnet", "AlexNet", _IMAGE, CLASSES, 7.61, _alexnet)
VGG16 = Network("vgg16", "VGG-16", _IMAGE, CLASSES, 30.92, _vgg16)
INCEPTION_V3 = Network("inception_v3", "Inception-v3", (299, 299, 3), CLASSES, 68.32, inception_v3)
LSTM = Network("lstm", "LSTM", _WORDS, WORDS, 33.33, _lstm)
GRU = Network("gru", "GRU", _WORDS, WORDS, 30.44, _gru)
FCN5 = Network("fcn5", "FCN-5", _DIGIT, CLASSES, 4.88, _fcn5)
MNIST_MLP = Network("mnist_mlp", "MNIST network", _DIGIT, CLASSES, 0.0, _mnist_mlp)
"""The network of the gRPC paper's experiment; the paper gives no time of its computation."""
SIX = (ALEXNET, INCEPTION_V3, VGG16, LSTM, GRU, FCN5)
"""The networks of the main paper's training experiments."""
NETWORKS = {network.key: network for network in (*SIX, MNIST_MLP)}


def name_of(model: str) -> str:
    """Return the name of a network; one that is not known keeps its key."""
    return NETWORKS[model].name if model in NETWORKS else model
