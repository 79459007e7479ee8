"""gRPC (grpcio): one unary call for each transfer, with plain bytes."""

from __future__ import annotations

import importlib
import threading
from collections import deque
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from farwrite_bench.peers.end import End, Setup
from farwrite_bench.peers.loop import ECHO
from farwrite_bench.peers.peer import PYTHON, Peer
from farwrite_bench.peers.pool import Buffer
from farwrite_bench.peers.site import in_two_processes

SERVICE, METHOD = "farwrite.Peers", "Take"
OPTIONS = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.http2.max_frame_size", 2**24 - 1),
    ("grpc.http2.lookahead_bytes", 2**26),
    ("grpc.optimization_target", "throughput"),
)
"""No limit of a message, the largest frames and a large window."""


class GrpcEnd(End):
    """A server at the receiver, and a client at the sender."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._grpc: Any = importlib.import_module("grpc")
        self._server: Any = None
        self._left = 0
        self._done = threading.Event()
        options = ", ".join(f"{name.removeprefix('grpc.')}={value}" for name, value in OPTIONS)
        self.settings = (
            f"grpcio {self._grpc.__version__}: unary calls over a unix socket; {options}"
        )
        if setup.receives:
            self._serve_calls()

    @property
    def address(self) -> object:
        """The server's address."""
        return f"unix:{self.setup.folder}/grpc"

    def _serve_calls(self) -> None:
        handler = self._grpc.unary_unary_rpc_method_handler(self._take)
        self._server = self._grpc.server(ThreadPoolExecutor(1), options=OPTIONS)
        self._server.add_generic_rpc_handlers(
            [self._grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler})]
        )
        self._server.add_insecure_port(self.address)
        self._server.start()

    def _take(self, payload: bytes, _: object) -> bytes:
        """Handle a call, in a thread of the server."""
        taker = self.taker
        assert taker is not None
        echo = taker.prepare()  # inside its time: nothing calls this side between two calls
        taker.take(payload)
        answer = (
            bytes(self._source[echo : echo + self.loop.size]) if self.loop.kind == ECHO else b""
        )
        self._left -= 1
        if self._left == 0:
            self._done.set()
        return answer

    def connect(self, other: object) -> None:
        """Open the client's channel."""
        self._source = self.out.data
        if not self.setup.receives:
            self._channel = self._grpc.insecure_channel(str(other), options=OPTIONS)
            self._grpc.channel_ready_future(self._channel).result(30)
            self._call = self._channel.unary_unary(f"/{SERVICE}/{METHOD}")

    def begin(self) -> None:
        """Count the calls of the loop down."""
        self._left = self.loop.transfers
        self._done.clear()

    def serve(self) -> None:
        """Wait until the server has handled all calls."""
        self._done.wait()

    def exchange(self, offset: int) -> Buffer:
        """Call, and return the answer."""
        answer: Buffer = self._call(bytes(self._source[offset : offset + self.loop.size]))
        return answer

    def deliver(self, offset: int) -> None:
        """Call."""
        self._call(bytes(self._source[offset : offset + self.loop.size]))

    def stream(self, offsets: Iterable[int]) -> None:
        """Keep a window of calls under way."""
        calls: deque[Any] = deque()
        for offset in offsets:
            if len(calls) == self.loop.window:
                calls.popleft().result()
            payload = bytes(self._source[offset : offset + self.loop.size])
            calls.append(self._call.future(payload))
        for call in calls:
            call.result()

    def close(self) -> None:
        """Stop the server, or close the channel."""
        if self._server is not None:
            self._server.stop(None)
        else:
            self._channel.close()


PEER = Peer(
    "grpc",
    "gRPC (grpcio)",
    PYTHON,
    in_two_processes(GrpcEnd),
    module="grpc",
    install="pip install 'grpcio>=1.76', or farwrite-bench[grpc]",
    copies=lambda _: 5,
)
