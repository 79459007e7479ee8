"""The variables of a task on its parameter servers, and the rows of tables that workers read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from farwrite_experiments.networks.outline import Variable
from farwrite_experiments.train.variables import Adagrad, Adam, Variables

TABLE_RATE = 0.2
"""Adagrad's learning rate of the tables, whose rows are read seldom."""
Bound = Callable[[Any, Sequence[int]], Any]
"""Declares the largest shape of a tensor, as `farwrite.tensorflow.bound_shape`."""


class Weights(Variables):
    """Variables that workers read as a whole, and matrices of which they read some rows.

    Adam with this `rate` updates the `variables`, and Adagrad the rows of the `tables`. The servers
    have them in turn. The tensor `seed` selects the first values.
    """

    def __init__(
        self,
        tf: Any,
        variables: Sequence[Variable],
        tables: Sequence[Variable],
        rate: float,
        servers: int,
        seed: Any,
    ) -> None:
        def first(number: int, variable: Variable) -> Any:
            shape = variable.shape
            if len(shape) == 1:
                return tf.zeros(shape)
            inputs = variable.elements // shape[-1]
            scale = 0.1 if variable in tables else (1.5 / inputs) ** 0.5
            chosen = tf.stack([seed, tf.constant(number, tf.int64)])
            return scale * tf.random.stateless_normal(shape, seed=chosen)

        self._adagrad = Adagrad(TABLE_RATE)
        super().__init__(
            tf,
            [*variables, *tables],
            "convergence",
            lambda number: tf.device(f"/job:ps/task:{number % servers}"),
            lambda variable: self._adagrad if variable in tables else Adam(rate),
            first,
        )

    def rows(self, table: Variable, numbers: Any) -> Any:
        """Return rows of a table, which its server gathers: the shape of `numbers` with a width."""
        with self.place(table):
            return self._tf.raw_ops.ResourceGather(
                resource=self.handles[table][0], indices=numbers, dtype=self._tf.float32
            )

    def update_rows(self, table: Variable, numbers: Sequence[Any], rows: Sequence[Any]) -> Any:
        """Return the operation that applies gradients of rows; those of one row are added."""
        tf, width = self._tf, table.shape[-1]
        with self.place(table):
            flat = tf.concat([tf.reshape(each, [-1]) for each in numbers], 0)
            gradients = tf.concat([tf.reshape(each, [-1, width]) for each in rows], 0)
            once, places = tf.unique(flat)
            added = tf.math.unsorted_segment_sum(gradients, places, tf.shape(once)[0])
            handle, *slots = self.handles[table]
            return self._adagrad.apply_rows(tf, handle, slots, added, once)


@dataclass(frozen=True)
class Lookup:
    """Rows of a table that a worker read."""

    table: Variable
    numbers: Any
    rows: Any
    """The rows, or their gradient."""
    limit: int | None
    """The most numbers of a line; None if it is not known."""


class Reads:
    """What one worker reads in a step. Without the plug-in there is no `bound`."""

    def __init__(self, weights: Weights, bound: Bound | None) -> None:
        self._weights, self._bound = weights, bound
        self._lookups: list[Lookup] = []

    def value(self, variable: Variable) -> Any:
        """Return the tensor with the value of a variable."""
        return self._weights.values[variable]

    def rows(self, table: Variable, numbers: Any, limit: int | None = None) -> Any:
        """Return rows of a table, of shape (batch, longest, width).

        Parameters
        ----------
        numbers : Tensor
            Of shape (batch, longest).
        limit : int, optional
            The most that `longest` can be. The edge is then bounded, and dynamic otherwise.
        """
        made = Lookup(table, numbers, self._weights.rows(table, numbers), limit)
        self._lookups.append(made)
        self._bounded(made, made.rows)
        return made.rows

    def gradients(
        self, tf: Any, loss: Any, variables: Sequence[Variable], workers: int
    ) -> tuple[dict[Variable, Any], list[Lookup]]:
        """Return this worker's share of the gradients: of variables, and of the rows it read."""
        values = [*map(self.value, variables), *(each.rows for each in self._lookups)]
        # The gradient of the loss is a scalar: the mean over workers costs no other pass.
        share = tf.constant(1.0 / workers)
        found = tf.compat.v1.gradients(loss, values, grad_ys=share)
        of_rows = zip(self._lookups, found[len(variables) :], strict=True)
        return dict(zip(variables, found, strict=False)), [
            replace(each, rows=self._bounded(each, gradient)) for each, gradient in of_rows
        ]

    def _bounded(self, lookup: Lookup, tensor: Any) -> Any:
        """Declare the largest shape of a lookup's rows or of their gradient."""
        if self._bound is None or lookup.limit is None:
            return tensor
        batch = lookup.numbers.shape[0]
        return self._bound(tensor, [batch, lookup.limit, lookup.table.shape[-1]])
