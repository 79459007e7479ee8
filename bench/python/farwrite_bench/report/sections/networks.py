"""The names of the networks that `bench train` and `bench sizes` measure."""

from __future__ import annotations

NAMES = {
    "alexnet": "AlexNet",
    "vgg16": "VGG-16",
    "inception_v3": "Inception-v3",
    "lstm": "LSTM",
    "gru": "GRU",
    "fcn5": "FCN-5",
    "mnist_mlp": "MNIST MLP",
}


def name_of(model: str) -> str:
    """Return the name of a network; one that is not known keeps its key."""
    return NAMES.get(model, model)
