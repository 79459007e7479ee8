"""`async for` over notifications."""

from __future__ import annotations

import asyncio

import pytest

import farwrite as fw
from conftest import Link, Pair
from processes import PeerState


def run(coroutine: object) -> object:
    return asyncio.run(asyncio.wait_for(coroutine, 30))  # type: ignore[arg-type]


def test_takes_what_is_queued_and_what_comes(pair: Pair) -> None:
    pair.near.notify(0).wait()

    async def take() -> list[int]:
        tags = []
        asyncio.get_running_loop().call_later(0.05, pair.near.notify, 1)
        async for notification in pair.far.notifications():
            tags.append(notification.tag)
            if len(tags) == 2:
                return tags
        return tags

    assert run(take()) == [0, 1]


def test_ends_when_the_peer_closes(pair: Pair) -> None:
    async def take() -> list[int]:
        asyncio.get_running_loop().call_later(0.05, pair.near.notify, 1)
        asyncio.get_running_loop().call_later(0.1, pair.near.close)
        return [notification.tag async for notification in pair.far.notifications()]

    assert run(take()) == [1]


def test_ends_when_the_channel_is_closed_here(pair: Pair) -> None:
    async def take() -> list[fw.Notification]:
        asyncio.get_running_loop().call_later(0.05, pair.far.close)
        return [notification async for notification in pair.far.notifications()]

    assert run(take()) == []


def test_ends_when_the_device_is_closed_here(pair: Pair) -> None:
    async def take() -> list[fw.Notification]:
        asyncio.get_running_loop().call_later(0.05, pair.right.close)
        return [notification async for notification in pair.far.notifications()]

    assert run(take()) == []
    assert list(pair.far.notifications()) == []


def test_leaving_the_loop_gives_the_queue_back(pair: Pair) -> None:
    async def take_one() -> int:
        async for notification in pair.far.notifications():
            return notification.tag
        raise AssertionError("the stream ended")

    pair.near.notify(1).wait()
    assert run(take_one()) == 1
    pair.near.notify(2).wait()
    assert pair.far.wait_notification(10).tag == 2


def test_other_tasks_go_on_meanwhile(pair: Pair) -> None:
    async def take() -> int:
        async for notification in pair.far.notifications():
            return notification.tag
        raise AssertionError("the stream ended")

    async def both() -> int:
        taken = asyncio.create_task(take())
        for _ in range(10):
            await asyncio.sleep(0.005)
        pair.near.notify(3)
        return await taken

    assert run(both()) == 3


def _notify(state: PeerState, tag: int) -> None:
    state.channel.notify(tag).wait()


def test_raises_when_the_peer_dies_after_what_had_arrived(link: Link) -> None:
    link.peer.run(_notify, 5)
    link.peer.kill()
    tags: list[int] = []

    async def take() -> None:
        async for notification in link.channel.notifications():
            tags.append(notification.tag)

    with pytest.raises(fw.PeerDead):
        run(take())
    assert tags == [5]
