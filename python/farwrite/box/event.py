"""Event: a named counter of a box that processes signal and wait for."""

from __future__ import annotations

from collections.abc import Callable
from typing import SupportsIndex

from farwrite.arguments import seconds
from farwrite.box.segment import Segment
from farwrite.box.updates import Updates, Watch
from farwrite.errors import Error
from farwrite.lifetime.handle import Handle
from farwrite.long_wait import LongWait


class Event(Handle, elsewhere="take it by its name in the other process: client.event(name)"):
    """A named counter. `Client.event` creates it, or attaches the one of that name.

    An event is a segment without bytes. `signal` counts one up, and `wait` waits for a count. So a
    process that waits late misses nothing.

    The constructor is internal: use `Client.event`.
    """

    def __init__(self, segment: Segment) -> None:
        self._segment = segment

    @property
    def name(self) -> str:
        """The name of the event."""
        return self._segment.name

    @property
    def count(self) -> int:
        """Number of signals so far."""
        return self._segment.version

    def signal(self) -> int:
        """Count one up, and return the new count. `connect`'s timeout bounds the wait."""
        return self._segment.signal()

    @property
    def epoch(self) -> int:
        """The epoch of the count; see `Segment.epoch`."""
        return self._segment.epoch

    def wait(
        self,
        count: SupportsIndex | None = None,
        timeout: float | None = None,
        *,
        epoch: SupportsIndex | None = None,
    ) -> int:
        """Wait until there were at least `count` signals. Ctrl-C interrupts the wait.

        Parameters
        ----------
        count : int, optional
            By default one more than there are at the call.
        timeout : float or None
            Seconds; None waits for ever.
        epoch : int, optional
            The epoch that the caller has, of an earlier connection: if the event has another one,
            it counts from somewhere else, and the wait ends.

        Returns
        -------
        int
            The present count.

        Raises
        ------
        DeadlineExceeded
            If the timeout passed.
        """
        wait = LongWait(seconds("wait", timeout))
        if count is None:
            # Not `self.count`, which waits for connect's timeout.
            count = self._segment.wait(0, wait.left()) + 1
        return self._segment.wait(count, wait.left(), epoch=epoch)

    async def wait_async(
        self,
        count: SupportsIndex | None = None,
        timeout: float | None = None,
        *,
        epoch: SupportsIndex | None = None,
    ) -> int:
        """Wait as `wait` does, without blocking the event loop."""
        wait = LongWait(seconds("wait_async", timeout))
        if count is None:
            count = await self._segment.wait_async(0, wait.left()) + 1
        return await self._segment.wait_async(count, wait.left(), epoch=epoch)

    def counts(
        self, since: SupportsIndex | None = None, *, epoch: SupportsIndex | None = None
    ) -> Updates:
        """Iterate over new counts, with ``for`` or ``async for``; see `Segment.updates`."""
        return self._segment.updates(since, epoch=epoch)

    def on_signal(self, callback: Callable[[int | Error], object]) -> Watch:
        """Call ``callback(count)`` after new signals, and once with the `Error` that ends them.

        See `Segment.on_update`.
        """
        return self._segment.on_update(callback)

    def free(self) -> None:
        """Free the event for every client."""
        self._segment.free()

    def _facts(self) -> str:
        return f"'{self.name}'"

    def _state(self) -> str:
        return self._segment._state()
