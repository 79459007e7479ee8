"""gRPC (grpcio): one unary call for each transfer, with plain bytes."""

from __future__ import annotations

import importlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from farwrite_bench.peers.end import CallingEnd, Setup
from farwrite_bench.peers.loop import Buffer
from farwrite_bench.peers.peer import PYTHON, Peer
from farwrite_bench.peers.sides import in_two_processes

SERVICE, METHOD = "farwrite.Peers", "Take"
OPTIONS = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.http2.max_frame_size", 2**24 - 1),
    ("grpc.http2.lookahead_bytes", 2**26),
    ("grpc.optimization_target", "throughput"),
)
"""No limit of a message, the largest frames and a large window."""


class _GrpcEnd(CallingEnd):
    """A server at the receiver, and a client at the sender."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._grpc: Any = importlib.import_module("grpc")
        options = ", ".join(f"{name.removeprefix('grpc.')}={value}" for name, value in OPTIONS)
        self.settings = (
            f"grpcio {self._grpc.__version__}: unary calls over a unix socket; {options}"
        )
        self._source = self.out.data
        if setup.receives:
            handler = self._grpc.unary_unary_rpc_method_handler(self._handle)
            self._server = self._grpc.server(ThreadPoolExecutor(1), options=OPTIONS)
            self._server.add_generic_rpc_handlers(
                [self._grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler})]
            )
            self._server.add_insecure_port(self.address)
            self._server.start()

    @property
    def address(self) -> Any:
        return f"unix:{self.setup.folder}/grpc"

    def connect(self, other: Any) -> None:
        if not self.setup.receives:
            self._channel = self._grpc.insecure_channel(other, options=OPTIONS)
            self._grpc.channel_ready_future(self._channel).result(30)
            self._call = self._channel.unary_unary(f"/{SERVICE}/{METHOD}")

    def _handle(self, payload: bytes, _: object) -> bytes:
        echo = self.take(payload)
        return b"" if echo is None else self._payload(echo)

    def _payload(self, offset: int) -> bytes:
        return bytes(self._source[offset : offset + self.loop.size])

    def exchange(self, offset: int) -> Buffer:
        """Call in the way that waits at once, which is faster."""
        answer: Buffer = self._call(self._payload(offset))
        return answer

    def call(self, offset: int) -> Any:
        return self._call.future(self._payload(offset))

    def result(self, call: Any) -> Buffer:
        answer: Buffer = call.result()
        return answer

    def close(self) -> None:
        if self.setup.receives:
            self._server.stop(None)
        else:
            self._channel.close()


PEER = Peer(
    "grpc",
    "gRPC (grpcio)",
    PYTHON,
    in_two_processes(_GrpcEnd),
    module="grpc",
    install="pip install 'grpcio>=1.76', or farwrite-bench[grpc]",
    copies=lambda _: 5,
)
