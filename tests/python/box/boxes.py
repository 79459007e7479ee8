"""A box for a test, and clients of it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

import farwrite as fw


@contextlib.contextmanager
def open_box() -> Iterator[Callable[[], fw.box.Client]]:
    """Serve a box in this process; calls of the result connect clients to it."""
    clients, lock = contextlib.ExitStack(), threading.Lock()
    with fw.box.serve() as server, clients:

        def connect() -> fw.box.Client:
            client = server.connect()
            with lock:
                return clients.enter_context(client)

        yield connect
