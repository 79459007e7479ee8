"""The graph of a case, where its parts are, and the session that takes its steps."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from farwrite_bench.tensor.graph import session_config, timed
from farwrite_experiments.library import load
from farwrite_experiments.networks.network import MNIST_MLP
from farwrite_experiments.networks.outline import Layer, Shape, Value, Variable
from farwrite_experiments.networks.real import RealNetwork, loss, synthetic
from farwrite_experiments.train.plan import EMULATED, MODEL, Case
from farwrite_experiments.train.variables import Adagrad, Descent, Variables

SEED = 7
FORWARD = 1 / 3
"""The forward pass's share of the multiplications: the backward pass has two for each of them."""

Device = AbstractContextManager[Any]
Read = Callable[[Variable], Any]
"""Returns the tensor with the value of a variable."""


class Placement:
    """Device scopes: which task has which variable and which layer of a case.

    Without a `cluster` there are no tasks, and one process has everything.
    """

    def __init__(self, tf: Any, case: Case, *, cluster: bool) -> None:
        self._tf, self._case, self._cluster = tf, case, cluster
        layers = case.network.layers
        self._split = split(layers)
        self._owners = [number for number, layer in enumerate(layers) for _ in layer.variables]

    def layer(self, worker: int, number: int) -> Device:
        """Return the device of the task that computes layer `number` for `worker`."""
        return self._task("worker", self.half(number) if self._case.mode == MODEL else worker)

    def half(self, number: int) -> int:
        """Return the half of the model, 0 or 1, that has layer `number`."""
        return int(number >= self._split)

    def variable(self, number: int) -> Device:
        """Return the device of a variable: servers in turn, or the worker that has its layer."""
        if self._case.mode == MODEL:
            return self.layer(0, self._owners[number])
        return self._task("ps", number % self._case.servers)

    def _task(self, job: str, number: int) -> Device:
        where = f"/job:{job}/task:{number}"
        return self._tf.device(where) if self._cluster else nullcontext()


def split(layers: list[Layer]) -> int:
    """Return the number of the first layer of a model's second half, by operations."""
    done = np.cumsum([layer.operations for layer in layers])
    return min(int(np.searchsorted(done, done[-1] / 2)) + 1, len(layers) - 1)


def gradients_of(
    tf: Any, case: Case, value: Read, placement: Placement, worker: int
) -> dict[Variable, Any]:
    """Build the forward and the backward pass of a worker; return each variable's gradient."""
    if case.compute == EMULATED:
        return _emulated(tf, case, value, placement, worker)
    network = case.network
    built = RealNetwork(tf, value, lambda layer: placement.layer(worker, layer))
    with placement.layer(worker, 0):
        samples, labels = synthetic(tf, network.sample, case.batch, network.classes, worker)
    outputs = network.add_to(built, Value(network.sample, samples), network.classes)
    with placement.layer(worker, len(built.layers) - 1):
        total = loss(tf, outputs, labels)
    values = [value(each) for each in network.variables]
    with placement.layer(worker, 0):
        # A half of a model computes its own gradients.
        beside = case.mode == MODEL
        gradients = tf.compat.v1.gradients(total, values, colocate_gradients_with_ops=beside)
    return dict(zip(network.variables, gradients, strict=True))


def _emulated(
    tf: Any, case: Case, value: Read, placement: Placement, worker: int
) -> dict[Variable, Any]:
    """Build the passes of a worker with emulated computation.

    Each layer is two operations of the library `farwrite_experiments.library`: one in the forward
    pass, which reads the layer's variables as they arrive, and one in the backward pass, which
    writes the layer's gradients. Each takes its share of the network's time by its multiplications.
    """
    layers = case.network.layers
    total = sum(layer.operations for layer in layers)
    assert case.compute_ms is not None
    times = [case.compute_ms * layer.operations / total for layer in layers]
    emulated_compute = load().farwrite_emulated_compute

    def compute(milliseconds: float, read: list[Any], held: list[Any], *shapes: Shape) -> list[Any]:
        written: list[Any] = emulated_compute(
            read=read, held=held, shapes=shapes, M=len(shapes), milliseconds=milliseconds
        )
        return written

    def passed_on(number: int) -> Shape:
        """Return the shape of what a layer passes on: activations between tasks, or a number."""
        if case.mode != MODEL or number < 0 or number + 1 >= len(layers):
            return ()
        crosses = placement.half(number) != placement.half(number + 1)
        return (case.batch, *layers[number].output) if crosses else ()

    with placement.layer(worker, 0):
        token = tf.zeros([])
    tokens = []
    for number, layer in enumerate(layers):
        with placement.layer(worker, number):
            read = [token, *map(value, layer.variables)]
            (token,) = compute(FORWARD * times[number], read, [], passed_on(number))
            tokens.append(token)
    gradients: dict[Variable, Any] = {}
    for number, layer in reversed(list(enumerate(layers))):
        with placement.layer(worker, number):
            token, *written = compute(
                (1 - FORWARD) * times[number],
                # The layer's input, and what the layer behind passed back.
                [token, tokens[number - 1]] if number else [token],
                # A layer's backward pass needs its variables, so they stay here until then.
                [value(variable) for variable in layer.variables],
                passed_on(number - 1),
                *(variable.shape for variable in layer.variables),
            )
        gradients.update(zip(layer.variables, written, strict=True))
    return gradients


def first_value(tf: Any, case: Case, number: int, variable: Variable) -> Any:
    """Return the first value: constant if emulated, since no layer computes with it."""
    shape = variable.shape
    if case.compute == EMULATED:
        return tf.fill(shape, tf.constant(0.01 * (number + 1)))
    if len(shape) == 1:
        return tf.zeros(shape)
    inputs = variable.elements // shape[-1]
    return (2.0 / inputs) ** 0.5 * tf.random.stateless_normal(shape, seed=[number, 1])


class Training:
    """A session that takes the steps of a case.

    Parameters
    ----------
    worker : int, optional
        The worker whose steps the session takes. None takes the steps of all of them together, and
        applies the mean of their gradients.
    cluster : bool
        Whether there are tasks. Otherwise the `target`'s one process has everything.
    """

    def __init__(
        self, tf: Any, case: Case, target: str, worker: int | None, *, cluster: bool
    ) -> None:
        workers = range(case.workers) if worker is None else [worker]
        if case.mode == MODEL:
            workers = [0]
        optimizer = case.optimizer or (Adagrad() if case.model == MNIST_MLP.key else Descent())
        with tf.Graph().as_default() as graph:
            tf.compat.v1.random.set_random_seed(SEED)
            placement = Placement(tf, case, cluster=cluster)
            variables = Variables(
                tf,
                case.network.variables,
                case.model,
                placement.variable,
                lambda _: optimizer,
                lambda number, variable: first_value(tf, case, number, variable),
            )
            towers = [
                gradients_of(tf, case, variables.values.__getitem__, placement, number)
                for number in workers
            ]
            updates = [
                variables.update(variable, [tower[variable] for tower in towers])
                for variable in case.network.variables
            ]
            step = tf.group(updates)
            self._create = tf.group(variables.create)
            self._checksums = variables.checksums
            self._destroy = tf.group(variables.destroy)
        self._session = tf.compat.v1.Session(target, graph=graph, config=session_config(tf))
        # The target is an operation, so nothing is fetched.
        self._step: Callable[[], object] = self._session.make_callable(step)

    def create(self) -> None:
        """Create the variables."""
        self._session.run(self._create)

    def take(self, count: int) -> list[float]:
        """Take steps, and return the seconds of each."""
        return timed(self._step, count)

    def checksums(self) -> list[int]:
        """Return the sum over the bits of each variable."""
        return [int(value) for value in self._session.run(self._checksums)]

    def close(self, destroys: bool) -> None:
        """End the session, and free the variables before that if it `destroys` them."""
        if destroys:
            self._session.run(self._destroy)
        self._session.close()
