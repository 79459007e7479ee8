"""Closes every open device before the interpreter finalizes, and every box's server and client.

The pollers are threads that Python did not create. At exit, Farwrite closes every device, which
stops the device's pollers. Farwrite then keeps any remaining poller from calling into Python.
A daemon thread that waits meanwhile waits until the process has ended.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
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
_in_forked_child = False
_has_finalizer = False


def close_at_exit(device: Closable) -> None:
    """Close `device` when the interpreter exits, if the object still exists."""
    _end_with_multiprocessing()
    _open.add(device)


def _end_with_multiprocessing() -> None:
    # A process that multiprocessing has forked ends without atexit, but with finalizers. Where both
    # come, the second finds all closed.
    global _has_finalizer
    if _has_finalizer:
        return
    process, util = (sys.modules.get(f"multiprocessing.{name}") for name in ("process", "util"))
    if process is not None and util is not None and process.parent_process() is not None:
        util.Finalize(None, _end, exitpriority=-1)  # after those of the program
        _has_finalizer = True


def _forget_parents() -> None:
    # A forked child has neither the pollers nor the right to close its parent's devices.
    global _open, _in_forked_child, _has_finalizer
    _open = WeakObjects()
    _in_forked_child = True
    _has_finalizer = False


os.register_at_fork(after_in_child=_forget_parents)


@atexit.register
def _end() -> None:
    own = _open.alive()
    # Closing the gate waits for the pollers inside, and a child may have a copy of its parent's.
    if _in_forked_child and not own:
        return
    begin_end()
    for device in own:
        # A silent peer keeps its memory quarantined; the end of the process settles that.
        with contextlib.suppress(Error):
            device.close(0.2)
    _farwrite.close_gate()
