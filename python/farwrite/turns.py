"""An event loop's turns: an await that is done at once takes none, and a loop of them would starve.

Timeouts, other tasks and Ctrl-C come between two turns. So an await that need not wait lets the
loop go on once the turn under way is a millisecond old, in which many of these awaits fit.
"""

from __future__ import annotations

import threading
import time

_SECONDS = 0.001


class _Turn(threading.local):
    """The turn under way of the loop that this thread runs."""

    since: float | None = None
    """When the first await of it was done at once."""

    def end(self) -> None:
        self.since = None


_turn = _Turn()


def is_over() -> bool:
    """Whether the caller, a task of an event loop, has to let other tasks run now."""
    now = time.monotonic()
    if _turn.since is not None:
        over = now - _turn.since >= _SECONDS
        if over:
            _turn.end()  # also of a loop that was closed in its last turn
        return over
    import asyncio

    try:
        asyncio.get_running_loop().call_soon(_turn.end)
    except RuntimeError:  # another kind of loop, or none
        return False
    _turn.since = now
    return False
