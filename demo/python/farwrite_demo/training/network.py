"""The networks, their data, and their steps without Keras: the code shows every tensor."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

BATCH = 32
WORKERS = 2
SEED = 20
DATASET = "scikit-learn digits (1,797 images of 8 x 8)"
TEST_SHARE = 0.2

Weights = list[npt.NDArray[np.float32]]
Images = npt.NDArray[np.float32]
"""Of shape (count, 64), with values from 0 to 1."""
Labels = npt.NDArray[np.int32]
"""From 0 to 9."""


@dataclass(frozen=True)
class Model:
    """A multi-layer perceptron."""

    name: str
    what: str
    """Its hidden layers, in words."""
    widths: tuple[int, ...]
    """The inputs, the units of each hidden layer, and the outputs."""

    @property
    def parameters(self) -> int:
        """The number of weights and biases."""
        return sum(inputs * outputs + outputs for inputs, outputs in pairwise(self.widths))

    @property
    def tensors(self) -> int:
        """The number of variables: a matrix and a bias for each layer."""
        return 2 * (len(self.widths) - 1)


LARGE = Model("large", "three hidden layers of 2,048 units", (64, 2048, 2048, 2048, 10))
SMALL = Model("small", "one hidden layer of 128 units", (64, 128, 10))


@dataclass(frozen=True)
class Job:
    """One training run."""

    model: Model
    steps: int
    """Measured steps; `warm_up` more run before them."""
    learning_rate: float
    """The rate at the start; it falls linearly to 0 at the end."""
    warm_up: int = 8
    synchronous: bool = False
    """Each step applies the mean of the gradients of both workers, so that the weights repeat bit
    for bit. Otherwise no worker waits for the other, as is usual with parameter servers."""

    @property
    def batches(self) -> int:
        """The number of batches of a step."""
        return WORKERS if self.synchronous else 1


@dataclass(frozen=True)
class Digits:
    """The images for the training and for the test."""

    train_images: Images
    train_labels: Labels
    test_images: Images
    test_labels: Labels


def load_digits() -> Digits:
    """Load and split the images, always in the same way. A fifth of them is for the test."""
    datasets: Any = importlib.import_module("sklearn.datasets")
    images, labels = datasets.load_digits(return_X_y=True)
    order = np.random.default_rng(SEED).permutation(len(images))
    images = (images[order] / 16).astype(np.float32)
    labels = labels[order].astype(np.int32)
    test = int(len(images) * TEST_SHARE)
    return Digits(images[test:], labels[test:], images[:test], labels[:test])


def batches(images: int, count: int) -> npt.NDArray[np.int32]:
    """Choose the images of `count` batches. Each epoch has another order, the same in every run.

    Returns
    -------
    array
        Indices of training images, of shape (count, `BATCH`).
    """
    whole = images // BATCH
    epochs = [
        np.random.default_rng((SEED, epoch)).permutation(images)[: whole * BATCH]
        for epoch in range(-(-count // whole))
    ]
    return np.concatenate(epochs).reshape(-1, BATCH)[:count].astype(np.int32)


def initial_weights(model: Model) -> Weights:
    """Make the initial weights: a matrix and a bias for each layer, the same in every run."""
    random = np.random.default_rng(SEED)
    weights: Weights = []
    for inputs, outputs in pairwise(model.widths):
        scale = np.sqrt(2 / inputs)
        weights.append((random.standard_normal((inputs, outputs)) * scale).astype(np.float32))
        weights.append(np.zeros(outputs, np.float32))
    return weights


class Trainer:
    """The variables, and the step that trains them. Create it in the strategy's scope.

    Parameters
    ----------
    tf : module
        TensorFlow.
    job : Job
        The job to train.
    digits : Digits
        The data. It is part of the step's graph, so that no task sends batches.
    """

    def __init__(self, tf: Any, job: Job, digits: Digits) -> None:
        self._tf = tf
        self._job = job
        self._digits = digits
        self._total = job.steps + job.warm_up
        self._batches = batches(len(digits.train_images), self._total * job.batches)
        self.variables = [tf.Variable(value) for value in initial_weights(job.model)]

    def step(self) -> Callable[[Any], Any]:
        """Make the step: it takes a number, changes the weights and returns the loss."""
        function: Callable[[Any], Any] = self._tf.function(
            self._step,
            input_signature=[self._tf.TensorSpec([], self._tf.int32)],
            autograph=False,
        )
        return function

    def _step(self, number: Any) -> Any:
        tf, count = self._tf, self._job.batches
        losses, gradients = [], []
        for worker in range(count):
            place = f"/job:worker/task:{worker}" if self._job.synchronous else None
            with tf.device(place):  # None: the worker that runs the step
                loss, gradient = self._gradients(number * count + worker, number)
            losses.append(loss)
            gradients.append(gradient)
        for variable, *parts in zip(self.variables, *gradients, strict=True):
            with tf.device(variable.device):
                mean = tf.add_n(parts) / np.float32(count) if count > 1 else parts[0]
                tf.raw_ops.ResourceApplyGradientDescent(
                    var=variable.handle, alpha=tf.constant(1.0), delta=mean
                )
        return tf.add_n(losses) / np.float32(count)

    def _gradients(self, batch: Any, step: Any) -> tuple[Any, list[Any]]:
        tf = self._tf
        chosen = tf.gather(tf.constant(self._batches), batch)
        images = tf.gather(tf.constant(self._digits.train_images), chosen)
        labels = tf.gather(tf.constant(self._digits.train_labels), chosen)
        # identity: every variable is read once, even if the backward pass uses it again.
        weights = [tf.identity(variable.read_value()) for variable in self.variables]
        with tf.GradientTape() as tape:
            tape.watch(weights)
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(
                    labels, self._logits(images, weights)
                )
            )
        # The learning rate is the gradient of the output. It is a scalar there. Applied later it
        # would need a pass over 34 MB, or another tensor to the parameter server.
        done = tf.cast(step, tf.float32) / self._total
        rate = self._job.learning_rate * (1 - done)
        return loss, tape.gradient(loss, weights, output_gradients=rate)

    def _logits(self, images: Any, weights: Sequence[Any]) -> Any:
        tf = self._tf
        values = images
        for layer in range(0, len(weights), 2):
            values = tf.matmul(values, weights[layer]) + weights[layer + 1]
            if layer + 2 < len(weights):
                values = tf.nn.relu(values)
        return values


def judge(weights: Weights, images: Images, labels: Labels) -> tuple[float, float]:
    """Compute loss and accuracy in NumPy, independently of the compared transports."""
    values = images
    for layer in range(0, len(weights), 2):
        values = values @ weights[layer] + weights[layer + 1]
        if layer + 2 < len(weights):
            values = np.maximum(values, 0)
    shifted = values - values.max(axis=1, keepdims=True)
    likelihood = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    loss = -likelihood[np.arange(len(labels)), labels].mean()
    return float(loss), float((values.argmax(axis=1) == labels).mean())


def fingerprint(weights: Weights) -> str:
    """Hash every bit of the weights."""
    digest = hashlib.sha256()
    for weight in weights:
        digest.update(np.ascontiguousarray(weight).tobytes())
    return digest.hexdigest()
