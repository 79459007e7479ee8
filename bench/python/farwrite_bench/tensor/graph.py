"""The graphs: a variable of one task, and a consumer of its value in the other task."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from farwrite.errors import Internal
from farwrite_bench.tensor.plan import (
    CHAIN,
    CHAIN_HOPS,
    LOCAL,
    PARALLEL,
    PARALLEL_TENSORS,
    SLICE,
    Case,
)

PRODUCER = "/job:ps/task:0"
CONSUMER = "/job:worker/task:0"
_ELEMENT = 4  # float32


class OpenCase:
    """A session with the graph of one case. Its variable lives until `close`.

    Parameters
    ----------
    tf : module
        TensorFlow.
    transport : str
        Key of the transport. `LOCAL` puts both ends into the consumer's task.
    target : str
        The consumer's server.
    case : Case
        What to build.
    number : int
        The value of all elements of the variable.
    """

    def __init__(self, tf: Any, transport: str, target: str, case: Case, number: int) -> None:
        value = float(number)
        producer = CONSUMER if transport == LOCAL.key else PRODUCER
        count = max(case.size // _ELEMENT, 1)
        with tf.Graph().as_default() as graph:
            with tf.device(producer):
                handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[count], shared_name="x")
                fill = tf.raw_ops.AssignVariableOp(
                    resource=handle, value=tf.fill([count], tf.constant(value))
                )
                tensor = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)
                self._destroy = tf.raw_ops.DestroyResourceOp(resource=handle)
                idle = [tf.no_op()]
            result = self._consume(tf, case, tensor, count, producer)
            with tf.device(CONSUMER):
                idle.append(tf.no_op())
        self._session = tf.compat.v1.Session(target, graph=graph, config=session_config(tf))
        self._session.run(fill)
        self._check(result, value + (CHAIN_HOPS if case.consumer == CHAIN else 0))
        # The targets are operations, so nothing is fetched and the client receives no result.
        self._full = self._session.make_callable(result.op)
        self._empty = self._session.make_callable(idle)

    def take(self, empty: bool, count: int) -> list[float]:
        """Run `count` steps and return the seconds of each."""
        return timed(self._empty if empty else self._full, count)

    def close(self) -> None:
        """Free the variable and end the session."""
        self._session.run(self._destroy)
        self._session.close()

    @staticmethod
    def _consume(tf: Any, case: Case, tensor: Any, count: int, producer: str) -> Any:
        if case.consumer == CHAIN:
            for hop in range(CHAIN_HOPS):
                with tf.device(producer if hop % 2 else CONSUMER):
                    tensor = tensor + 1.0
            return tensor
        if case.consumer == PARALLEL:
            with tf.device(producer):
                tensors = [tensor + 0.0 for _ in range(PARALLEL_TENSORS)]
            with tf.device(CONSUMER):
                return tf.add_n([tf.slice(each, [0], [1]) for each in tensors]) / PARALLEL_TENSORS
        with tf.device(CONSUMER):
            if case.consumer == SLICE:
                return tf.slice(tensor, [count // 2], [1])
            return tf.reduce_max(tensor)

    def _check(self, result: Any, wanted: float) -> None:
        found = self._session.run(result)
        if float(found.ravel()[0]) != wanted:
            raise Internal(f"bench: a step gave {found}, instead of {wanted}; report this")


def timed(step: Callable[[], object], count: int) -> list[float]:
    """Call `step` `count` times, and return the seconds of each call."""
    seconds = []
    for _ in range(count):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    return seconds


def session_config(tf: Any) -> Any:
    """Return the settings of a session that runs the graph as written, without optimizers."""
    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return config
