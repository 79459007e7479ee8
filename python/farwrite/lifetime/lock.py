"""Lock: a lock that a forked child finds free."""

from __future__ import annotations

import os
import threading


class Lock:
    """A lock for ``with lock():`` blocks, which may contain calls that wait.

    In a forked child it is free, whichever thread of the parent held it. The calls in the block
    then raise `Forked`, instead of a wait that never ends. The block's lock is Python's own: no
    exception of a signal handler can come between taking it and the block, as it could in an
    ``__enter__`` written in Python.
    """

    __slots__ = ("_lock", "_owner")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = os.getpid()

    def __call__(self) -> threading.Lock:
        """Return the lock of this process."""
        if self._owner != os.getpid():
            self._lock, self._owner = threading.Lock(), os.getpid()
        return self._lock
