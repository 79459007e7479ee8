"""ZeroMQ (pyzmq): a pair of sockets over a unix socket."""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

from farwrite_bench.peers.end import End, Setup
from farwrite_bench.peers.loop import Buffer
from farwrite_bench.peers.peer import PYTHON, Peer
from farwrite_bench.peers.sides import in_two_processes

ZERO_COPY_BYTES = 64 * 2**10
"""From here on a message without a copy is faster (pyzmq's own ``zmq.COPY_THRESHOLD``)."""
ACKNOWLEDGEMENT = b"\0" * 8


class _ZmqEnd(End):
    """A PAIR socket."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._zmq: Any = importlib.import_module("zmq")
        self._context = self._zmq.Context(io_threads=1)
        self._socket = self._context.socket(self._zmq.PAIR)
        self._socket.setsockopt(self._zmq.LINGER, 0)
        self._socket.set_hwm(0)
        self._frame: Any = None
        self.settings = (
            f"pyzmq {self._zmq.__version__}, libzmq {self._zmq.zmq_version()}: PAIR over ipc://, no"
            " high-water mark; from 64 KiB on copy=False on both sides; waits block"
        )
        if setup.receives:
            self._socket.bind(self._endpoint)

    @property
    def _endpoint(self) -> str:
        return f"ipc://{self.setup.folder}/zmq"

    def connect(self, other: Any) -> None:
        if not self.setup.receives:
            self._socket.connect(self._endpoint)

    def begin(self) -> None:
        """Choose whether messages are copied."""
        self._copy = self.loop.size < ZERO_COPY_BYTES
        self._source = self.out.data

    def send(self, offset: int) -> None:
        """Send a message. ZeroMQ's thread may read its payload later."""
        self._socket.send(self._source[offset : offset + self.loop.size], copy=self._copy)

    def receive(self) -> Buffer:
        """Receive a message, in memory of the library."""
        if self._copy:
            payload: Buffer = self._socket.recv()
            return payload
        self._frame = self._socket.recv(copy=False)
        view: Buffer = self._frame.buffer
        return view

    def release(self) -> None:
        self._frame = None

    def acknowledge(self) -> None:
        self._socket.send(ACKNOWLEDGEMENT)

    def await_acknowledgement(self) -> None:
        self._socket.recv()

    def close(self) -> None:
        with contextlib.suppress(self._zmq.ZMQError):
            self._context.destroy(linger=0)


def _copies(size: int) -> int:
    """Through a socket; small messages also into and out of the library's own memory."""
    return 2 if size >= ZERO_COPY_BYTES else 4


PEER = Peer(
    "zmq",
    "pyzmq",
    PYTHON,
    in_two_processes(_ZmqEnd),
    module="zmq",
    install="pip install 'pyzmq>=27,<28', or farwrite-bench[zmq]",
    copies=_copies,
)
