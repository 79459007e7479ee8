"""The HTTP server of ``/metrics``, and what it allows its clients."""

from __future__ import annotations

import contextlib
import errno
import http.server
import socket
import socketserver
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
REQUEST_SECONDS = 5.0
"""The time limit of one request, including its response."""
CONNECTIONS = 16
"""The limit of open connections; a scraper needs one. A further one closes the oldest."""


class _Handler(http.server.BaseHTTPRequestHandler):
    timeout = REQUEST_SECONDS
    server: MetricsServer

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != "/metrics":
            self.send_error(HTTPStatus.NOT_FOUND, "the only page is /metrics")
            return
        body = self.server.text().encode()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Log nothing for a scrape."""


class MetricsServer(http.server.ThreadingHTTPServer):
    """Serves what `text` returns; `text` is called in a thread of the request."""

    daemon_threads = True
    allow_reuse_port = False
    request_queue_size = 64

    def __init__(self, host: str, port: int, text: Callable[[], str]) -> None:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self.address_family = found[0][0]
        self.text = text
        self._requests: dict[socket.socket, float] = {}  # and when they end; oldest first
        self._requests_lock = threading.Lock()
        super().__init__(found[0][4][:2], _Handler)  # type: ignore[arg-type]

    def server_bind(self) -> None:
        """Bind without HTTPServer's look-up of the host's name, which may take seconds."""
        socketserver.TCPServer.server_bind(self)

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection; wait before the next attempt if no descriptor is free."""
        try:
            return super().get_request()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                time.sleep(0.1)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for a connection, and set the connection's deadline."""
        with self._requests_lock:
            if len(self._requests) >= CONNECTIONS:
                self._end(next(iter(self._requests)))
            self._requests[request] = time.monotonic() + REQUEST_SECONDS
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection, in the thread that serves it."""
        with self._requests_lock:
            self._requests.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """End the connections past their deadline; called ten times a second."""
        now = time.monotonic()
        with self._requests_lock:
            for request in [one for one, end in self._requests.items() if end <= now]:
                self._end(request)

    def _end(self, request: socket.socket) -> None:
        """Wake the thread that serves `request`. The caller holds the lock, so it is open."""
        del self._requests[request]
        with contextlib.suppress(OSError):  # the client left
            request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:
        """Log nothing when a client disconnects."""
