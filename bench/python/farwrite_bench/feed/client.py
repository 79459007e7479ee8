"""What the client of one way runs: a session with a server in another process."""

from __future__ import annotations

from typing import Any

import numpy as np

from farwrite.errors import Internal
from farwrite_bench.tensor.graph import session_config, timed

FEED, FETCH = "feed", "fetch"
ELEMENT = 4
"""Bytes of a float32."""
DEVICE = "/job:worker/task:0"
_STRIDE = 1024
"""Elements between two that each turn of feeds changes: one in each page."""


class Feeds:
    """Feeds a tensor into a variable of a server, and fetches the variable.

    Parameters
    ----------
    tf : module
        TensorFlow.
    target : str
        The server, such as "grpc://127.0.0.1:20000".
    """

    def __init__(self, tf: Any, target: str) -> None:
        self._tf, self._target = tf, target

    def open(self, size: int) -> None:
        """Open a session with a variable of `size` bytes."""
        tf = self._tf
        shape = [size // ELEMENT]
        with tf.Graph().as_default() as graph, tf.device(DEVICE):
            self._fed = tf.compat.v1.placeholder(tf.float32, shape)
            handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=shape, shared_name="fed")
            self._assign = tf.raw_ops.AssignVariableOp(resource=handle, value=self._fed)
            self._value = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)
            self._destroy = tf.raw_ops.DestroyResourceOp(resource=handle)
        self._session = tf.compat.v1.Session(self._target, graph=graph, config=session_config(tf))
        self._array = np.random.default_rng(size).random(shape[0], dtype=np.float32)
        self._turns = 0

    def take(self, count: int, what: str) -> list[float]:
        """Feed or fetch `count` times."""
        return (self.feed if what == FEED else self.fetch)(count)

    def feed(self, count: int) -> list[float]:
        """Feed the tensor `count` times, with new values in each turn."""
        self._turns += 1
        self._mark(self._turns)
        feeds = {self._fed: self._array}
        return timed(lambda: self._session.run(self._assign, feeds), count)

    def fetch(self, count: int) -> list[float]:
        """Fetch the variable `count` times, and compare all of it with what was fed.

        The fed array changes before, because a program may use it again after its feed.
        """
        self._mark(0)
        found: Any = None

        def fetch() -> None:
            nonlocal found
            found = self._session.run(self._value)

        seconds = timed(fetch, count)
        self._mark(self._turns)
        if not np.array_equal(found, self._array):
            wrong = int(np.count_nonzero(found != self._array))
            raise Internal(
                f"bench feed: {wrong} of {self._array.size} fetched elements differ from what was"
                " fed; report this"
            )
        return seconds

    def _mark(self, value: float) -> None:
        self._array[::_STRIDE] = value
        self._array[-1] = -value

    def close(self) -> None:
        """Free the variable and end the session."""
        self._session.run(self._destroy)
        self._session.close()
