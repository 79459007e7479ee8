"""``farwrite.sockets``: bytes that the kernel counts."""

from __future__ import annotations

import socket
import time

from farwrite.sockets import socket_bytes


def test_socket_bytes_count_what_went_through_tcp() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        left = socket.create_connection(server.getsockname())
        right, _ = server.accept()
    with left, right:
        before = socket_bytes()
        left.sendall(bytes(100_000))
        received = 0
        while received < 100_000:
            received += len(right.recv(65536))
        right.sendall(bytes(50))
        assert len(left.recv(50)) == 50
        give_up = time.monotonic() + 10
        while socket_bytes().sent - before.sent < 100_050:  # until all is acknowledged
            assert time.monotonic() < give_up
        after = socket_bytes()
    assert after.sent - before.sent == 100_050
    assert after.received - before.received == 100_050
