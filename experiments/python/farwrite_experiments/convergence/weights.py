"""The variables of a task on its parameter servers: read by workers, updated where they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from farwrite_experiments.networks.outline import Variable
from farwrite_experiments.train.optimizers import Adagrad, Adam
from farwrite_experiments.train.variables import checksum

Bound = Callable[[Any, Sequence[int]], Any]
"""Declares the largest shape of a tensor, as `farwrite.tensorflow.bound_shape`."""


@dataclass(frozen=True)
class Lookup:
    """Rows of a table that a worker read."""

    table: Variable
    numbers: Any
    rows: Any
    limit: int | None
    """The most numbers of a line; None if it is not known."""


class Weights:
    """Builds the operations on the variables of a task.

    Parameters
    ----------
    tf : module
        TensorFlow.
    variables : sequence of Variable
        Variables that workers read as a whole. Adam updates them.
    tables : sequence of Variable
        Matrices of which workers read some rows. Adagrad updates those.
    adam, adagrad : Adam, Adagrad
        The updates.
    servers : int
        The number of servers. They have the variables in turn.
    seed : Tensor
        Selects the first values.
    """

    def __init__(
        self,
        tf: Any,
        variables: Sequence[Variable],
        tables: Sequence[Variable],
        adam: Adam,
        adagrad: Adagrad,
        servers: int,
        seed: Any,
    ) -> None:
        self._tf, self._adam, self._adagrad, self._seed = tf, adam, adagrad, seed
        self._servers = servers
        self._all = [*variables, *tables]
        self.tables = list(tables)
        self._numbers = {each: number for number, each in enumerate(self._all)}
        self._handles = {each: self._handle(each, "") for each in self._all}
        self._slots = {
            each: [
                (self._handle(each, suffix), value)
                for suffix, value in (adagrad if each in tables else adam).slots
            ]
            for each in self._all
        }
        self.values = {each: self._read(each) for each in variables}

    def create(self) -> list[Any]:
        """Return the operations that give all variables their first values."""
        tf, made = self._tf, []
        for variable in self._all:
            with self.place(variable):
                made.append(self._assign(self._handles[variable], self._first(variable)))
                for handle, value in self._slots[variable]:
                    made.append(self._assign(handle, tf.fill(variable.shape, value)))
        return made

    def rows(self, table: Variable, numbers: Any) -> Any:
        """Return rows of a table, which its server gathers: the shape of `numbers` with a width."""
        with self.place(table):
            return self._tf.raw_ops.ResourceGather(
                resource=self._handles[table], indices=numbers, dtype=self._tf.float32
            )

    def update(self, variable: Variable, gradients: Sequence[Any]) -> Any:
        """Return the operation that applies the workers' gradients, which are added."""
        tf = self._tf
        with self.place(variable):
            total = gradients[0] if len(gradients) == 1 else tf.add_n(gradients)
            slots = [handle for handle, _ in self._slots[variable]]
            return self._adam.apply(tf, self._handles[variable], slots, total, len(gradients))

    def update_rows(self, table: Variable, numbers: Sequence[Any], rows: Sequence[Any]) -> Any:
        """Return the operation that applies gradients of rows; those of one row are added."""
        tf, width = self._tf, table.shape[-1]
        with self.place(table):
            flat = tf.concat([tf.reshape(each, [-1]) for each in numbers], 0)
            gradients = tf.concat([tf.reshape(each, [-1, width]) for each in rows], 0)
            once, places = tf.unique(flat)
            added = tf.math.unsorted_segment_sum(gradients, places, tf.shape(once)[0])
            slots = [handle for handle, _ in self._slots[table]]
            return self._adagrad.apply_rows(tf, self._handles[table], slots, added, once)

    def checksums(self) -> list[Any]:
        """Return the `checksum` of each variable, computed where it is."""
        found = []
        for variable in self._all:
            with self.place(variable):
                found.append(checksum(self._tf, self._read(variable)))
        return found

    def destroy(self) -> list[Any]:
        """Return the operations that free all variables."""
        freed = []
        for variable in self._all:
            with self.place(variable):
                for handle in (
                    self._handles[variable],
                    *(each for each, _ in self._slots[variable]),
                ):
                    freed.append(
                        self._tf.raw_ops.DestroyResourceOp(
                            resource=handle, ignore_lookup_error=True
                        )
                    )
        return freed

    def place(self, variable: Variable) -> AbstractContextManager[Any]:
        """Return the device scope of the server that has a variable."""
        device: AbstractContextManager[Any] = self._tf.device(
            f"/job:ps/task:{self._numbers[variable] % self._servers}"
        )
        return device

    def _first(self, variable: Variable) -> Any:
        tf, shape = self._tf, variable.shape
        if len(shape) == 1:
            return tf.zeros(shape)
        inputs = 1 if variable in self.tables else variable.elements // shape[-1]
        scale = 0.1 if variable in self.tables else (1.5 / inputs) ** 0.5
        seed = tf.stack([self._seed, tf.constant(self._numbers[variable], tf.int64)])
        return scale * tf.random.stateless_normal(shape, seed=seed)

    def _handle(self, variable: Variable, suffix: str) -> Any:
        with self.place(variable):
            return self._tf.raw_ops.VarHandleOp(
                dtype=self._tf.float32,
                shape=variable.shape,
                shared_name=f"convergence/{variable.name}{suffix}",
            )

    def _read(self, variable: Variable) -> Any:
        with self.place(variable):
            return self._tf.raw_ops.ReadVariableOp(
                resource=self._handles[variable], dtype=self._tf.float32
            )

    def _assign(self, handle: Any, value: Any) -> Any:
        return self._tf.raw_ops.AssignVariableOp(resource=handle, value=value)


class Reads:
    """What one worker reads in a step.

    Parameters
    ----------
    weights : Weights
        The variables.
    bound : callable, optional
        Declares largest shapes to the plug-in; None without it.
    """

    def __init__(self, weights: Weights, bound: Bound | None) -> None:
        self._weights, self._bound = weights, bound
        self.lookups: list[Lookup] = []

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
        self.lookups.append(made)
        self.bounded(made, made.rows)
        return made.rows

    def bounded(self, lookup: Lookup, tensor: Any) -> Any:
        """Declare the largest shape of a lookup's rows or of their gradient."""
        if self._bound is None or lookup.limit is None:
            return tensor
        batch = lookup.numbers.shape[0]
        return self._bound(tensor, [batch, lookup.limit, lookup.table.shape[-1]])
