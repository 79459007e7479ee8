"""The notifications that a peer raised, one by one or as a stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from farwrite import _farwrite
from farwrite.errors import (
    Cancelled,
    Error,
    FailedPrecondition,
    Unavailable,
)
from farwrite.lifetime.handle import Handle
from farwrite.metrics.stats import PeerState

if TYPE_CHECKING:
    from farwrite.channel import Channel


class Notification(NamedTuple):
    """A tag that a peer raised: alone, after the bytes of a write, or with a message."""

    tag: int
    """A 32-bit number that the sender chose."""
    lane: int
    """The lane of the notification. Notifications are ordered within one lane only."""
    message: bytes
    """The bytes from `Channel.send`; empty for other notifications."""


_farwrite.set_notification_type(Notification)


class Notifications(
    Handle, elsewhere="connect in the other process, and take the notifications of that channel"
):
    """The notifications of a channel as a stream, for ``for`` and ``async for``.

    The stream ends when either side closes the channel. If the peer dies, the stream yields the
    notifications that had arrived, and then raises `PeerDead`. Each notification is taken from the
    channel when it is yielded: a loop that ends early leaves the others there.

    The constructor is internal: use `Channel.notifications`.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def __iter__(self) -> Iterator[Notification]:
        while (notification := self._channel.next_notification()) is not None:
            yield notification

    def __aiter__(self) -> Notifications:
        return self

    async def __anext__(self) -> Notification:
        try:
            return await self._channel.notification()
        except (Unavailable, Cancelled, FailedPrecondition) as error:
            if ended_in_good_order(self._channel, error):
                raise StopAsyncIteration from None
            raise


def ended_in_good_order(channel: Channel, error: Error) -> bool:
    """Whether `error` of a wait for a notification says that either side closed the channel."""
    if isinstance(error, Unavailable):  # the peer closed it; its process may be gone by now
        return True
    return channel.closed or channel.peer_state is PeerState.CLOSED  # with its device
