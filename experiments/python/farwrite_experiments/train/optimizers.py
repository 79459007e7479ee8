"""The updates of variables, each by TensorFlow's operation where the variable is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

RATE = 1e-3
"""The learning rate of gradient descent."""


class Optimizer(Protocol):
    """How gradients change a variable."""

    @property
    def slots(self) -> Sequence[tuple[str, float]]:
        """The tensors that it keeps beside a variable: the end of the name, the first value."""

    def apply(self, tf: Any, variable: Any, slots: Sequence[Any], total: Any, count: int) -> Any:
        """Return the operation that applies the mean of `count` gradients, given their sum."""


@dataclass(frozen=True)
class Descent:
    """Gradient descent."""

    rate: float = RATE
    slots: tuple[tuple[str, float], ...] = ()

    def apply(self, tf: Any, variable: Any, slots: Sequence[Any], total: Any, count: int) -> Any:
        """Apply the mean. It takes no pass over the gradients, because the rate is divided."""
        del slots
        return tf.raw_ops.ResourceApplyGradientDescent(
            var=variable, alpha=tf.constant(self.rate / count), delta=total
        )


@dataclass(frozen=True)
class Adagrad:
    """Adagrad, with a first sum of squares of 0.1."""

    rate: float = 0.01
    slots: tuple[tuple[str, float], ...] = (("/sum", 0.1),)

    def apply(self, tf: Any, variable: Any, slots: Sequence[Any], total: Any, count: int) -> Any:
        """Apply the mean."""
        return tf.raw_ops.ResourceApplyAdagradV2(
            var=variable,
            accum=slots[0],
            lr=tf.constant(self.rate),
            epsilon=tf.constant(0.0),
            grad=total / float(count),
        )

    def apply_rows(
        self, tf: Any, variable: Any, slots: Sequence[Any], rows: Any, numbers: Any
    ) -> Any:
        """Return the operation that applies sums of gradients to some rows, each named once."""
        return tf.raw_ops.ResourceSparseApplyAdagradV2(
            var=variable,
            accum=slots[0],
            lr=tf.constant(self.rate),
            epsilon=tf.constant(0.0),
            grad=rows,
            indices=numbers,
        )


@dataclass(frozen=True)
class Adam:
    """Adam without the correction of the first steps, which would need a count of steps.

    Its step does not depend on the scale of the gradients, so their sum does for their mean.
    """

    rate: float = 1e-3
    first_decay: float = 0.9
    second_decay: float = 0.99
    """Less than usual. Without the correction, the first steps are then not much longer."""
    slots: tuple[tuple[str, float], ...] = (("/mean", 0.0), ("/square", 0.0))

    def apply(self, tf: Any, variable: Any, slots: Sequence[Any], total: Any, count: int) -> Any:
        """Apply the sum."""
        del count
        return tf.raw_ops.ResourceApplyAdam(
            var=variable,
            m=slots[0],
            v=slots[1],
            beta1_power=tf.constant(0.0),
            beta2_power=tf.constant(0.0),
            lr=tf.constant(self.rate),
            beta1=tf.constant(self.first_decay),
            beta2=tf.constant(self.second_decay),
            epsilon=tf.constant(1e-8),
            grad=total,
        )
