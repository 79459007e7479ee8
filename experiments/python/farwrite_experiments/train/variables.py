"""The variables of a case: created, read and updated where their task is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from farwrite_experiments.networks.network import MNIST_MLP
from farwrite_experiments.networks.outline import Variable
from farwrite_experiments.train.optimizers import Adagrad, Descent, Optimizer
from farwrite_experiments.train.placement import Placement
from farwrite_experiments.train.plan import EMULATED, Case


class Variables:
    """Builds the operations on a case's variables. Sessions share variables of the same name."""

    def __init__(self, tf: Any, case: Case, placement: Placement) -> None:
        self._tf, self._case, self._placement = tf, case, placement
        self._variables = case.network.variables
        self._numbers = {each: number for number, each in enumerate(self._variables)}
        self._handles = [self._handle(each, "") for each in self._variables]
        self._optimizer = optimizer_of(case)
        self._slots = {
            suffix: [self._handle(each, suffix) for each in self._variables]
            for suffix, _ in self._optimizer.slots
        }
        self._values = {each: self._read(number) for each, number in self._numbers.items()}

    def create(self) -> Any:
        """Return the operation that creates all variables."""
        tf = self._tf
        made = []
        for number, variable in enumerate(self._variables):
            with self._placement.variable(number):
                made.append(
                    self._assign(
                        self._handles[number], first_value(tf, self._case, number, variable)
                    )
                )
                for suffix, value in self._optimizer.slots:
                    filled = tf.fill(variable.shape, value)
                    made.append(self._assign(self._slots[suffix][number], filled))
        return tf.group(made)

    def value(self, variable: Variable) -> Any:
        """Return the tensor with the value of a variable in this step."""
        return self._values[variable]

    def update(self, variable: Variable, gradients: Sequence[Any]) -> Any:
        """Return the operation that applies the mean of the workers' gradients."""
        tf, number = self._tf, self._numbers[variable]
        with self._placement.variable(number):
            total = gradients[0] if len(gradients) == 1 else tf.add_n(gradients)
            slots = [handles[number] for handles in self._slots.values()]
            return self._optimizer.apply(tf, self._handles[number], slots, total, len(gradients))

    def checksums(self) -> list[Any]:
        """Return the `checksum` of each variable, computed where it is."""
        found = []
        for number in range(len(self._variables)):
            with self._placement.variable(number):
                found.append(checksum(self._tf, self._read(number)))
        return found

    def destroy(self) -> Any:
        """Return the operation that frees all variables."""
        freed = []
        for handles in (self._handles, *self._slots.values()):
            for number, handle in enumerate(handles):
                with self._placement.variable(number):
                    freed.append(
                        self._tf.raw_ops.DestroyResourceOp(
                            resource=handle, ignore_lookup_error=True
                        )
                    )
        return self._tf.group(freed)

    def _handle(self, variable: Variable, suffix: str) -> Any:
        with self._placement.variable(self._numbers[variable]):
            return self._tf.raw_ops.VarHandleOp(
                dtype=self._tf.float32,
                shape=variable.shape,
                shared_name=f"{self._case.model}/{variable.name}{suffix}",
            )

    def _read(self, number: int) -> Any:
        with self._placement.variable(number):
            return self._tf.raw_ops.ReadVariableOp(
                resource=self._handles[number], dtype=self._tf.float32
            )

    def _assign(self, handle: Any, value: Any) -> Any:
        return self._tf.raw_ops.AssignVariableOp(resource=handle, value=value)


def optimizer_of(case: Case) -> Optimizer:
    """Return how a case's gradients change its variables."""
    if case.optimizer is not None:
        return case.optimizer
    return Adagrad() if case.model == MNIST_MLP.key else Descent()


def checksum(tf: Any, value: Any) -> Any:
    """Return the sum over the bits of a float tensor. Any one bit that differs changes it."""
    return tf.reduce_sum(tf.bitcast(value, tf.int32))


def first_value(tf: Any, case: Case, number: int, variable: Variable) -> Any:
    """Return the first value: constant if emulated, since no layer computes with it."""
    shape = variable.shape
    if case.compute == EMULATED:
        return tf.fill(shape, tf.constant(0.01 * (number + 1)))
    if len(shape) == 1:
        return tf.zeros(shape)
    inputs = variable.elements // shape[-1]
    return (2.0 / inputs) ** 0.5 * tf.random.stateless_normal(shape, seed=[number, 1])
