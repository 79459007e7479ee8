"""What a peer raised here, and how to take it one after the other."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, NamedTuple

from farwrite.errors import Cancelled, FailedPrecondition
from farwrite.stats import PeerState

if TYPE_CHECKING:
    from farwrite.channel import Channel

# How often an `async for` looks whether the peer is gone, in seconds.
PEER_CHECK_INTERVAL = 0.1


class Notification(NamedTuple):
    """A tag that a peer raised, behind the bytes of its write or with a short message."""

    tag: int
    """32 bits, chosen by the sender."""
    lane: int
    """The lane it came over; notifications are ordered on one lane only."""
    message: bytes
    """Empty unless it came from `Channel.send`."""


class Notifications:
    """The notifications of a channel as a stream, for ``for`` and ``async for``.

    It ends when the channel is closed, by either side. It raises `PeerDead` when the peer dies;
    what had arrived before comes first. While an ``async for`` runs, nobody else can take
    notifications from the channel.

    Parameters are internal: use `Channel.notifications`.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def __iter__(self) -> Iterator[Notification]:
        while (notification := self._channel.next_notification()) is not None:
            yield notification

    async def __aiter__(self) -> AsyncIterator[Notification]:
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
