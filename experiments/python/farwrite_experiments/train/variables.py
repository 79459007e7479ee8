"""Variables where their task is: created, read, updated and freed there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from farwrite_experiments.networks.network import MNIST_MLP
from farwrite_experiments.networks.outline import Variable
from farwrite_experiments.train.optimizers import Adagrad, Descent, Optimizer
from farwrite_experiments.train.placement import Placement
from farwrite_experiments.train.plan import EMULATED, Case


class Variables:
    """Builds the operations on variables. Sessions share variables of the same name.

    Parameters
    ----------
    tf : module
        TensorFlow.
    variables : sequence of Variable
        All of them; each has its place as its number.
    prefix : str
        Begins their names.
    place : callable
        Returns the device scope of the task that has the variable of a number.
    optimizer : callable
        Returns how gradients change a variable.
    first : callable
        Returns the first value of a variable, given its number.
    """

    def __init__(
        self,
        tf: Any,
        variables: Sequence[Variable],
        prefix: str,
        place: Callable[[int], AbstractContextManager[Any]],
        optimizer: Callable[[Variable], Optimizer],
        first: Callable[[int, Variable], Any],
    ) -> None:
        self._tf, self._prefix, self._place, self._first = tf, prefix, place, first
        self._optimizer = optimizer
        self._numbers = {each: number for number, each in enumerate(variables)}
        self._handles = {each: self._handle(each, "") for each in variables}
        self._slots = {
            each: [(self._handle(each, end), value) for end, value in optimizer(each).slots]
            for each in variables
        }
        self.values = {each: self._read(each) for each in variables}
        """The tensors with the values in this step."""

    def create(self) -> list[Any]:
        """Return the operations that give all variables their first values."""
        made = []
        for variable, number in self._numbers.items():
            with self.place(variable):
                first = self._first(number, variable)
                made.append(self._assign(self._handles[variable], first))
                for handle, value in self._slots[variable]:
                    made.append(self._assign(handle, self._tf.fill(variable.shape, value)))
        return made

    def update(self, variable: Variable, gradients: Sequence[Any]) -> Any:
        """Return the operation that applies the mean of the workers' gradients."""
        tf = self._tf
        with self.place(variable):
            total = gradients[0] if len(gradients) == 1 else tf.add_n(gradients)
            slots = [handle for handle, _ in self._slots[variable]]
            optimizer = self._optimizer(variable)
            return optimizer.apply(tf, self._handles[variable], slots, total, len(gradients))

    def checksums(self) -> list[Any]:
        """Return the `checksum` of each variable, computed where it is."""
        found = []
        for variable in self._numbers:
            with self.place(variable):
                found.append(checksum(self._tf, self._read(variable)))
        return found

    def destroy(self) -> list[Any]:
        """Return the operations that free all variables."""
        freed = []
        for variable in self._numbers:
            with self.place(variable):
                for handle in (self._handles[variable], *(h for h, _ in self._slots[variable])):
                    freed.append(
                        self._tf.raw_ops.DestroyResourceOp(
                            resource=handle, ignore_lookup_error=True
                        )
                    )
        return freed

    def place(self, variable: Variable) -> AbstractContextManager[Any]:
        """Return the device scope of the task that has a variable."""
        return self._place(self._numbers[variable])

    def _handle(self, variable: Variable, end: str) -> Any:
        with self.place(variable):
            return self._tf.raw_ops.VarHandleOp(
                dtype=self._tf.float32,
                shape=variable.shape,
                shared_name=f"{self._prefix}/{variable.name}{end}",
            )

    def _read(self, variable: Variable) -> Any:
        with self.place(variable):
            return self._tf.raw_ops.ReadVariableOp(
                resource=self._handles[variable], dtype=self._tf.float32
            )

    def _assign(self, handle: Any, value: Any) -> Any:
        return self._tf.raw_ops.AssignVariableOp(resource=handle, value=value)


def variables_of(tf: Any, case: Case, placement: Placement) -> Variables:
    """Return the variables of a case."""
    optimizer = optimizer_of(case)
    return Variables(
        tf,
        case.network.variables,
        case.model,
        placement.variable,
        lambda _: optimizer,
        lambda number, variable: first_value(tf, case, number, variable),
    )


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
