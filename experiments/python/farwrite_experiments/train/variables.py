"""Variables where their task is: created, read, updated and freed there, and their optimizers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any

from farwrite_experiments.networks.outline import Variable

RATE = 1e-3
"""The learning rate of gradient descent."""

Slots = tuple[tuple[str, float], ...]
"""The tensors that an optimizer keeps beside a variable: the end of the name, the first value."""


@dataclass(frozen=True)
class Descent:
    """Gradient descent."""

    rate: float = RATE
    slots: Slots = ()

    def apply(self, tf: Any, variable: Any, _slots: Sequence[Any], total: Any, count: int) -> Any:
        """Apply the mean of `count` gradients, given their sum, without a pass over them."""
        return tf.raw_ops.ResourceApplyGradientDescent(
            var=variable, alpha=tf.constant(self.rate / count), delta=total
        )


@dataclass(frozen=True)
class Adagrad:
    """Adagrad, with a first sum of squares of 0.1."""

    rate: float = 0.01
    slots: Slots = (("/sum", 0.1),)

    def apply(self, tf: Any, variable: Any, slots: Sequence[Any], total: Any, count: int) -> Any:
        """Apply the mean of `count` gradients, given their sum."""
        return tf.raw_ops.ResourceApplyAdagradV2(
            **self._shared(tf, variable, slots), grad=total / float(count)
        )

    def apply_rows(
        self, tf: Any, variable: Any, slots: Sequence[Any], rows: Any, numbers: Any
    ) -> Any:
        """Apply sums of gradients to some rows, each named once."""
        return tf.raw_ops.ResourceSparseApplyAdagradV2(
            **self._shared(tf, variable, slots), grad=rows, indices=numbers
        )

    def _shared(self, tf: Any, variable: Any, slots: Sequence[Any]) -> dict[str, Any]:
        rate, epsilon = tf.constant(self.rate), tf.constant(0.0)
        return {"var": variable, "accum": slots[0], "lr": rate, "epsilon": epsilon}


@dataclass(frozen=True)
class Adam:
    """Adam without the correction of the first steps, which would need a count of steps.

    Its step does not depend on the scale of the gradients, so their sum does for their mean.
    """

    rate: float = 1e-3
    decays: tuple[float, float] = (0.9, 0.99)
    """The second is less than usual. Without the correction, the first steps are then not much
    longer."""
    slots: Slots = (("/mean", 0.0), ("/square", 0.0))

    def apply(self, tf: Any, variable: Any, slots: Sequence[Any], total: Any, _count: int) -> Any:
        """Apply the sum of gradients."""
        return tf.raw_ops.ResourceApplyAdam(
            var=variable,
            m=slots[0],
            v=slots[1],
            beta1_power=tf.constant(0.0),
            beta2_power=tf.constant(0.0),
            lr=tf.constant(self.rate),
            beta1=tf.constant(self.decays[0]),
            beta2=tf.constant(self.decays[1]),
            epsilon=tf.constant(1e-8),
            grad=total,
        )


Optimizer = Descent | Adagrad | Adam


class Variables:
    """The operations on variables. Sessions share variables of the same name.

    Parameters
    ----------
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
        self._tf, self._place, self._optimizer = tf, place, optimizer
        self._numbers = {each: number for number, each in enumerate(variables)}
        self.handles: dict[Variable, list[Any]] = {}
        """The resources of each variable: its own, then its slots."""
        self.values: dict[Variable, Any] = {}
        """The tensors with the values in this step."""
        self.create: list[Any] = []
        """The operations that give all variables and slots their first values."""
        self.checksums: list[Any] = []
        """The `checksum` of each variable, computed where it is."""
        self.destroy: list[Any] = []
        """The operations that free all variables and slots."""
        raw = tf.raw_ops
        for number, each in enumerate(variables):
            slots = optimizer(each).slots
            with place(number):
                self.handles[each] = [
                    raw.VarHandleOp(
                        dtype=tf.float32, shape=each.shape, shared_name=f"{prefix}/{name}"
                    )
                    for name in (each.name, *(f"{each.name}{end}" for end, _ in slots))
                ]
                read = partial(raw.ReadVariableOp, resource=self.handles[each][0], dtype=tf.float32)
                self.values[each] = read()
                # A read of its own: what a step reads keeps the consumers that a training has.
                self.checksums.append(checksum(tf, read()))
                values = [first(number, each), *(tf.fill(each.shape, value) for _, value in slots)]
                for handle, value in zip(self.handles[each], values, strict=True):
                    self.create.append(raw.AssignVariableOp(resource=handle, value=value))
                    freed = raw.DestroyResourceOp(resource=handle, ignore_lookup_error=True)
                    self.destroy.append(freed)

    def update(self, variable: Variable, gradients: Sequence[Any]) -> Any:
        """Return the operation that applies the mean of the workers' gradients."""
        tf = self._tf
        with self.place(variable):
            total = gradients[0] if len(gradients) == 1 else tf.add_n(gradients)
            handle, *slots = self.handles[variable]
            return self._optimizer(variable).apply(tf, handle, slots, total, len(gradients))

    def place(self, variable: Variable) -> AbstractContextManager[Any]:
        """Return the device scope of the task that has a variable."""
        return self._place(self._numbers[variable])


def checksum(tf: Any, value: Any) -> Any:
    """Return the sum over the bits of a float tensor. Any one bit that differs changes it."""
    return tf.reduce_sum(tf.bitcast(value, tf.int32))
