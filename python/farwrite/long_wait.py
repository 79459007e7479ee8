"""The log's line about a long wait, as the core writes it about its own waits."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from farwrite import _farwrite
from farwrite.errors import DeadlineExceeded

LONG_S = 1.0
"""A shorter wait is not logged."""

Result = TypeVar("Result")


class LongWait:
    """A wait that begins now, and is logged once if it takes longer than a second.

    One with a limit of two seconds or less is not.

    Parameters
    ----------
    limit : float or None
        Seconds; None waits for ever.
    """

    def __init__(self, limit: float | None) -> None:
        begin = time.monotonic()
        self._end = None if limit is None else begin + limit
        self._told_at: float | None = begin + LONG_S

    def left(self) -> float | None:
        """Return the seconds that are left."""
        return None if self._end is None else max(self._end - time.monotonic(), 0.0)

    def tell(self, cause: object) -> None:
        """Log a warning if the wait has taken a second: what it waits for, and what to do."""
        if self._told_at is None or time.monotonic() < self._told_at:
            return
        self._told_at = None
        left = self.left()
        how_long = "ever" if left is None else f"another {left:.1f} s"
        so_far = str(cause).replace(" in time", " yet")  # the wait is not over
        _farwrite.log_warning(f"still waiting, for {how_long}: {so_far}")

    def call(self, wait: Callable[[float | None], Result], cause: str = "") -> Result:
        """Return ``wait(seconds)``, which loses nothing when it is made again, and tell meanwhile.

        Its `DeadlineExceeded` says what it waits for, and `cause` what that is for the user.
        """
        if self._is_short():
            return wait(self.left())
        try:
            return wait(LONG_S)
        except DeadlineExceeded as late:
            if self.left() == 0:
                raise
            self.tell(f"{cause} ({late})" if cause else late)
        return wait(self.left())

    async def call_async(self, wait: Callable[[float | None], Awaitable[Result]]) -> Result:
        """Do as `call` does, and await the waits."""
        if self._is_short():
            return await wait(self.left())
        try:
            return await wait(LONG_S)
        except DeadlineExceeded as late:
            if self.left() == 0:
                raise
            self.tell(late)
        return await wait(self.left())

    def _is_short(self) -> bool:
        left = self.left()
        return left is not None and left <= 2 * LONG_S
