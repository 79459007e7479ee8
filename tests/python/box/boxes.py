"""A box for a test, and clients of it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

import farwrite as fw

SMALL = {"segment_bytes": 4 << 20}
"""Each device fills what it sends from when it is first used: 64 MiB by default."""


@contextlib.contextmanager
def open_box() -> Iterator[Callable[[], fw.box.Client]]:
    """Serve a box in this process; calls of the result connect clients to it."""
    clients, lock = contextlib.ExitStack(), threading.Lock()
    with fw.box.serve(pool="4M", **SMALL) as server, clients:

        def connect() -> fw.box.Client:
            client = server.connect(**SMALL)
            with lock:
                return clients.enter_context(client)

        yield connect
