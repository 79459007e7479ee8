"""The graph of ``bench assign``: it adds a worker's vector to a variable of a parameter server."""

from __future__ import annotations

from typing import Any

from farwrite.errors import Internal
from farwrite_bench.tensor.graph import session_config, timed
from farwrite_bench.tensor.plan import LOCAL, Case

ASSIGN = "assign"
"""The name of the step in a `Case`."""
ELEMENT = 4
"""Bytes of an int32, the type that the issues' program adds."""
WORKER = "/job:worker/task:0"
PARAMETER_SERVER = "/job:ps/task:0"


class AssignCase:
    """A session that adds a vector of ones to a variable, as the program of the issues does.

    A step fetches nothing, because its target is the assignment and not the variable's value.

    Parameters
    ----------
    tf : module
        TensorFlow.
    transport : str
        Key of the transport. With `LOCAL` the session, the vector and the variable are in this
        process.
    target : str
        The worker's server.
    case : Case
        The case; its size is the size of the vector, in bytes.
    number : int
        Nothing depends on it.
    """

    def __init__(self, tf: Any, transport: str, target: str, case: Case, number: int) -> None:
        v1 = tf.compat.v1
        local = transport == LOCAL.key
        shape = [case.size // ELEMENT]
        with tf.Graph().as_default() as graph:
            with tf.device(None if local else WORKER):
                vector = v1.get_variable(
                    "vector", shape, tf.int32, v1.ones_initializer(), use_resource=True
                )
                idle = [tf.no_op()]
            with tf.device(None if local else PARAMETER_SERVER):
                total = v1.get_variable(
                    "total", shape, tf.int32, v1.zeros_initializer(), use_resource=True
                )
                step = total.assign_add(vector, read_value=False)
                self._ends = [tf.reduce_min(total), tf.reduce_max(total)]
                idle.append(tf.no_op())
            initialize = v1.global_variables_initializer()
            self._destroy = [
                tf.raw_ops.DestroyResourceOp(resource=each.handle) for each in (vector, total)
            ]
        self._session = v1.Session("" if local else target, graph=graph, config=session_config(tf))
        self._session.run(initialize)
        self._full = self._session.make_callable(step)
        self._empty = self._session.make_callable(idle)
        self._added = 0

    def take(self, empty: bool, count: int) -> list[float]:
        """Run `count` steps and return the seconds of each."""
        if not empty:
            self._added += count
        return timed(self._empty if empty else self._full, count)

    def close(self) -> None:
        """Check every element of the variable, free both variables, and end the session."""
        low, high = (int(end) for end in self._session.run(self._ends))
        if low != self._added or high != self._added:
            raise Internal(
                f"bench assign: after {self._added} steps the variable's elements are between"
                f" {low} and {high} instead of {self._added}; report this"
            )
        self._session.run(self._destroy)
        self._session.close()
