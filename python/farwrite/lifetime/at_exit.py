"""Closes every open device before the interpreter finalizes, and every box's server and client.

The pollers are threads that Python did not create. At exit, Farwrite closes every device, which
stops the device's pollers. Farwrite then keeps any remaining poller from calling into Python.
A daemon thread that waits meanwhile waits until the process has ended.
"""

from __future__ import annotations

import atexit
import contextlib
import os
from typing import Protocol

from farwrite import _farwrite
from farwrite.errors import Error, begin_end
from farwrite.lifetime.weak_objects import WeakObjects


class Closable(Protocol):
    """What has a device: a device, a box's server or client."""

    def close(self, timeout: float | None) -> None:
        """Close it; `timeout` in seconds."""


_farwrite.find_errors()

_open: WeakObjects[Closable] = WeakObjects()
_owner = os.getpid()


def close_at_exit(device: Closable) -> None:
    """Close `device` when the interpreter exits, if the object still exists."""
    _open.add(device)


@atexit.register
def _end() -> None:
    # A forked child has neither the pollers nor the right to close its parent's devices.
    if os.getpid() != _owner:
        return
    begin_end()
    for device in _open.alive():
        # A silent peer keeps its memory quarantined; the end of the process settles that.
        with contextlib.suppress(Error):
            device.close(0.2)
    _farwrite.close_gate()
