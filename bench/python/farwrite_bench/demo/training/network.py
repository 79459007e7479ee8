"""The network and its steps without Keras, so that the code shows every tensor between tasks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from farwrite_bench.demo.training.digits import Digits, Images, Labels, batches
from farwrite_bench.demo.training.plan import SEED, WORKERS, Job, Model

Weights = list[npt.NDArray[np.float32]]


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
    """The variables, and the steps that train them. Create it in the strategy's scope.

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
        count = self._total * (WORKERS if job.synchronous else 1)
        self._batches = batches(digits, count, job.batch)
        self.variables = [tf.Variable(value) for value in initial_weights(job.model)]

    def step(self) -> Callable[[Any], Any]:
        """Make one worker's step: it takes a number, changes the weights and returns the loss."""
        tf = self._tf

        def step(number: Any) -> Any:
            loss, gradients = self._gradients(number, number)
            for variable, gradient in zip(self.variables, gradients, strict=True):
                self._apply(variable, gradient)
            return loss

        function: Callable[[Any], Any] = tf.function(
            step, input_signature=[tf.TensorSpec([], tf.int32)], autograph=False
        )
        return function

    def synchronous_step(self) -> Callable[[Any], Any]:
        """Make the step of both workers, which applies the mean of their gradients once."""
        tf = self._tf

        def step(number: Any) -> Any:
            losses, gradients = [], []
            for worker in range(WORKERS):
                with tf.device(f"/job:worker/task:{worker}"):
                    loss, gradient = self._gradients(number * WORKERS + worker, number)
                losses.append(loss)
                gradients.append(gradient)
            for variable, *parts in zip(self.variables, *gradients, strict=True):
                with tf.device(variable.device):
                    mean = tf.add_n(parts) / np.float32(WORKERS)
                self._apply(variable, mean)
            return tf.add_n(losses) / np.float32(WORKERS)

        function: Callable[[Any], Any] = tf.function(
            step, input_signature=[tf.TensorSpec([], tf.int32)], autograph=False
        )
        return function

    def weights(self) -> Weights:
        """Fetch the current weights."""
        return [variable.numpy() for variable in self.variables]

    def _gradients(self, batch: Any, step: Any) -> tuple[Any, list[Any]]:
        tf = self._tf
        chosen = tf.gather(tf.constant(self._batches), batch)
        images = tf.gather(tf.constant(self._digits.train_images), chosen)
        labels = tf.gather(tf.constant(self._digits.train_labels), chosen)
        # identity: every variable is read once, also if the backward pass uses it again.
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

    def _apply(self, variable: Any, gradient: Any) -> None:
        with self._tf.device(variable.device):
            self._tf.raw_ops.ResourceApplyGradientDescent(
                var=variable.handle, alpha=self._tf.constant(1.0), delta=gradient
            )


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
