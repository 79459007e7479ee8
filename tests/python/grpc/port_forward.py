"""Passes the bytes of TCP connections on, as a proxy does that knows nothing of HTTP/2."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def port_forward(port: int) -> Iterator[int]:
    """Listen on a port of the loopback, and pass on to `port`, as long as the context lasts."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ends: list[socket.socket] = []

        def copy(source: socket.socket, target: socket.socket) -> None:
            with contextlib.suppress(OSError):
                while piece := source.recv(65536):
                    target.sendall(piece)
            with contextlib.suppress(OSError):
                target.shutdown(socket.SHUT_WR)

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    near, _ = listener.accept()
                    far = socket.create_connection(("127.0.0.1", port))
                    ends.extend((near, far))
                    for pair in ((near, far), (far, near)):
                        threading.Thread(target=copy, args=pair, daemon=True).start()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for end in ends:
                end.close()
