"""A box for a test, and clients of it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from fake_box import FakeBox, FakeClient


@contextlib.contextmanager
def open_box() -> Iterator[Callable[[], Any]]:
    """Serve a box in this process; calls of the result connect clients to it."""
    box = FakeBox()
    yield lambda: FakeClient(box)
