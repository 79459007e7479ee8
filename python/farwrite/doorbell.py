"""How asyncio tasks wait for what a channel brings: on its descriptor, and in no thread."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from farwrite import turns
from farwrite.errors import ResourceExhausted

if TYPE_CHECKING:
    import asyncio

    from farwrite.channel import Channel

Taken = TypeVar("Taken")

# A task that waits looks again after so many seconds: a thread that waits for the same channel, or
# another event loop, may have taken its wake-up.
_LONGEST_SLEEP = 0.1
# The same for what has come, but whose bytes are still being read: no doorbell rings for their end.
# At first, and at most: a peer may have stopped.
_READING, _LONGEST_READING = 0.0005, 0.01


class Doorbell:
    """Wakes the tasks of one event loop that wait for one channel.

    A task that looks may take what another one waits for. So they share the descriptor, and look
    again together.
    """

    def __init__(self, channel: Channel, loop: asyncio.AbstractEventLoop) -> None:
        self._native = channel.native
        self._loop = loop
        self._armed = False
        self._waiting: set[asyncio.Future[bool]] = set()
        # Another descriptor, because a program may have a reader for that one itself. As an object,
        # which closes it: an exception of a signal handler may come at any moment.
        try:
            self._poll = select.epoll()
            self._poll.register(self._native.notification_descriptor(), select.EPOLLIN)
        except OSError as error:
            raise ResourceExhausted(
                f"wait for a channel: no descriptor is left ({error}); raise the limit of open"
                " files (ulimit -n)"
            ) from None
        loop.add_reader(self._poll.fileno(), self._ring)

    def arm(self) -> bool:
        """Arm it before a wait. True: look once more first, because it was not armed until now."""
        if self._armed:
            return False
        # Arming silences what may have rung for those who wait already.
        self._wake()
        self._armed = self._native.arm_notifications()
        return True

    async def wait(self, longest: float) -> None:
        """Wait until something may have come since `arm`, at most `longest` seconds."""
        import asyncio

        if not self._armed:
            await asyncio.sleep(0)
            return
        ready = self._loop.create_future()
        self._waiting.add(ready)
        timer = self._loop.call_later(longest, _set, ready, False)
        try:
            if not await ready:
                self._armed = False
        finally:
            timer.cancel()
            self._waiting.discard(ready)

    @property
    def used(self) -> bool:
        """Whether a task waits, or would if its loop had not been closed."""
        return bool(self._waiting)

    def close(self) -> None:
        """Hold nothing of the loop any more."""
        if not self._loop.is_closed():
            self._loop.remove_reader(self._poll.fileno())
        self._poll.close()

    def _ring(self) -> None:
        self._armed = False
        self._wake()

    def _wake(self) -> None:
        for ready in self._waiting:
            _set(ready, True)


def _set(ready: asyncio.Future[bool], rung: bool) -> None:
    if not ready.done():
        ready.set_result(rung)


async def take_async(
    channel: Channel,
    look: Callable[[], Taken | None],
    last_look: Callable[[], Taken],
    timeout: float | None,
    reading: Callable[[], bool] = lambda: False,
) -> Taken:
    """Call `look` until it returns something, without blocking the event loop.

    What is taken is returned in the same step, so a task that is cancelled has taken nothing.

    Parameters
    ----------
    channel : Channel
        Brings what is waited for.
    look : callable
        Returns None if nothing has come. Never blocks.
    last_look : callable
        Called once the timeout has passed. Raises `DeadlineExceeded` if nothing has come.
    timeout : float or None
        Seconds; None waits for ever.
    reading : callable
        Whether something has come that can be taken in a moment.

    Raises
    ------
    DeadlineExceeded
        If the timeout passed.
    """
    import asyncio

    if turns.is_over():
        await asyncio.sleep(0)
    loop = asyncio.get_running_loop()
    end = None if timeout is None else time.monotonic() + timeout
    nap = _READING
    while True:
        left = _LONGEST_SLEEP if end is None else end - time.monotonic()
        if (taken := look()) is not None:
            return taken
        if left <= 0:
            return last_look()
        if reading():
            await asyncio.sleep(nap)
            nap = min(2 * nap, _LONGEST_READING)
            continue
        nap = _READING
        try:
            bell = channel.doorbells.get(loop)
            if bell is None:
                forget_closed_loops(channel)
                bell = channel.doorbells[loop] = Doorbell(channel, loop)
            if bell.arm():
                # A thread may have taken it off the channel for us since the first look.
                if (taken := look()) is not None:
                    return taken
                if reading():
                    continue
            await bell.wait(min(left, _LONGEST_SLEEP))
        finally:
            bell = channel.doorbells.get(loop)
            if bell is not None and not bell.used:
                channel.doorbells.pop(loop).close()


def forget_closed_loops(channel: Channel) -> None:
    """Close the doorbells of loops that were closed with tasks that waited."""
    for loop, bell in list(channel.doorbells.items()):
        if loop.is_closed() and channel.doorbells.pop(loop, None) is bell:
            bell.close()
