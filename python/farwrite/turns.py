"""An event loop's turns: an await that is done at once gives none, and a loop of them would starve.

Timeouts, other tasks and Ctrl-C come in a turn of the loop. So an await that need not wait lets the
loop take one if the last such turn is a millisecond ago, in which many of these awaits fit.
"""

from __future__ import annotations

import threading
import time

_SECONDS = 0.001


class _Turns(threading.local):
    """Of the loop that this thread runs."""

    due = 0.0


_turns = _Turns()


def is_due() -> bool:
    """Whether the caller, which runs in an event loop, has to let it take a turn now."""
    now = time.monotonic()
    if now < _turns.due:
        return False
    _turns.due = now + _SECONDS
    return True
