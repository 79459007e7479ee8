"""The notifications that a peer raised, one by one or as a stream."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, NamedTuple

from farwrite.errors import Cancelled, FailedPrecondition
from farwrite.stats import PeerState

if TYPE_CHECKING:
    from farwrite.channel import Channel

# An `async for` checks the state of the peer this often, in seconds.
PEER_CHECK_INTERVAL = 0.1


class Notification(NamedTuple):
    """A tag that a peer raised: alone, after the bytes of a write, or with a message."""

    tag: int
    """A 32-bit number that the sender chose."""
    lane: int
    """The lane of the notification. Notifications are ordered within one lane only."""
    message: bytes
    """The bytes from `Channel.send`; empty for other notifications."""


class Notifications:
    """The notifications of a channel as a stream, for ``for`` and ``async for``.

    The stream ends when either side closes the channel. If the peer dies, the stream yields the
    notifications that had arrived, and then raises `PeerDead`. While an ``async for`` runs, no
    other caller can take notifications from the channel.

    The constructor is internal: use `Channel.notifications`.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def __iter__(self) -> Iterator[Notification]:
        while (notification := self._channel.next_notification()) is not None:
            yield notification

    async def __aiter__(self) -> AsyncIterator[Notification]:
        import asyncio

        loop = asyncio.get_running_loop()
        arrived: deque[Notification] = deque()
        news = asyncio.Event()

        def take(notification: Notification) -> None:
            # In a poller's thread.
            arrived.append(notification)
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
                loop.call_soon_threadsafe(news.set)

        self._channel.on_notification(take)
        try:
            while True:
                while arrived:
                    yield arrived.popleft()
                if self._channel.peer_state in _GONE:
                    break
                news.clear()
                if not arrived:
                    with contextlib.suppress(asyncio.TimeoutError):
                        await asyncio.wait_for(news.wait(), PEER_CHECK_INTERVAL)
        finally:
            with contextlib.suppress(Cancelled, FailedPrecondition):  # this side closed the channel
                self._channel.on_notification(None)
        # What a poller delivered between the last look and the end of the handler; then the queue,
        # which knows why the stream ended.
        while arrived:
            yield arrived.popleft()
        while (notification := self._channel.next_notification(timeout=0)) is not None:
            yield notification


_GONE = (PeerState.CLOSED, PeerState.DEAD)
