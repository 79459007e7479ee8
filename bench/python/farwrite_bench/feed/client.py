"""The client of one way, as a `ForkedTask`. It runs no server."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from farwrite.errors import Internal
from farwrite_bench.cluster.group import Take
from farwrite_bench.cluster.readings import read
from farwrite_bench.cluster.seat import Look
from farwrite_bench.cluster.transport import STOCK_PROTOCOL
from farwrite_bench.tensor.graph import session_config, timed

FEED, FETCH = "feed", "fetch"
ELEMENT = 4
"""Bytes of a float32."""
TASK = "client"
DEVICE = "/job:worker/task:0"
_STRIDE = 1024
"""Elements between two that each turn of feeds changes: one in each page."""


@dataclass(frozen=True)
class Begin:
    """The first message to a client: the scheme and the address of its sessions' server."""

    scheme: str
    address: str


@dataclass(frozen=True)
class Open:
    """A request to a client: open a session with a variable of `size` bytes."""

    size: int


@dataclass(frozen=True)
class Close:
    """A request to a client: free the variable, and end the session."""


class Feeds:
    """A session that feeds a tensor into a variable of the server, and fetches the variable.

    Parameters
    ----------
    tf : module
        TensorFlow.
    target : str
        The server, such as "grpc://127.0.0.1:20000".
    size : int
        Bytes of the tensor.
    """

    def __init__(self, tf: Any, target: str, size: int) -> None:
        shape = [size // ELEMENT]
        with tf.Graph().as_default() as graph, tf.device(DEVICE):
            self._fed = tf.compat.v1.placeholder(tf.float32, shape)
            handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=shape, shared_name="fed")
            self._assign = tf.raw_ops.AssignVariableOp(resource=handle, value=self._fed)
            self._value = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)
            self._destroy = tf.raw_ops.DestroyResourceOp(resource=handle)
        self._session = tf.compat.v1.Session(target, graph=graph, config=session_config(tf))
        self._array = np.random.default_rng(size).random(shape[0], dtype=np.float32)
        self._turns = 0

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


def main(control: Connection) -> None:
    """Answer the parent until it closes the control pipe."""
    begin: Begin = control.recv()
    if begin.scheme != STOCK_PROTOCOL:
        importlib.import_module("farwrite.tensorflow")
    tf: Any = importlib.import_module("tensorflow")
    target = f"{begin.scheme}://{begin.address}"
    opened: Feeds | None = None
    control.send(read(TASK))
    while True:
        order = control.recv()
        answer: object = None
        if isinstance(order, Open):
            opened = Feeds(tf, target, order.size)
        elif isinstance(order, Look):
            answer = read(TASK)
        elif opened is not None and isinstance(order, Take):
            answer = (opened.feed if order.what == FEED else opened.fetch)(order.count)
        elif opened is not None and isinstance(order, Close):
            opened.close()
            opened = None
        control.send(answer)
