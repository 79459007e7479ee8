"""Lock: a lock that a forked child finds free."""

from __future__ import annotations

import os
import threading
from types import TracebackType


class Lock:
    """A lock for ``with`` blocks, which may contain calls that wait.

    In a forked child it is free, whichever thread of the parent held it. The calls in the block
    then raise `Forked`, instead of a wait that never ends.
    """

    __slots__ = ("_lock", "_owner")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = os.getpid()

    def __enter__(self) -> None:
        if self._owner != os.getpid():
            self._lock, self._owner = threading.Lock(), os.getpid()
        self._lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.release()
