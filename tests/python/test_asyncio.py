"""`async for` over notifications."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import Callable

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


@pytest.mark.parametrize("fabric", ["shm", "tcp"])
def test_a_loop_that_is_left_early_takes_no_more_than_it_yielded(
    make_pair: Callable[..., Pair], fabric: str
) -> None:
    pair = make_pair(fabrics=[fabric])

    async def take_two() -> list[int]:
        tags = []
        async for notification in pair.far.notifications():
            tags.append(notification.tag)
            if len(tags) == 2:
                break
        return tags

    for tag in range(5):
        pair.near.notify(tag).wait()
    assert run(take_two()) == [0, 1]
    assert [pair.far.wait_notification(10).tag for _ in range(3)] == [2, 3, 4]


def test_a_loop_that_is_cancelled_has_taken_no_more_than_it_yielded(pair: Pair) -> None:
    async def take() -> list[int]:
        tags: list[int] = []
        first = asyncio.Event()

        async def loop() -> None:
            async for notification in pair.far.notifications():
                tags.append(notification.tag)
                first.set()
                await asyncio.sleep(30)

        task = asyncio.create_task(loop())
        await first.wait()
        for tag in range(1, 4):
            pair.near.notify(tag).wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return tags

    pair.near.notify(0).wait()
    assert run(take()) == [0]
    assert [pair.far.wait_notification(10).tag for _ in range(3)] == [1, 2, 3]


def test_one_notification_is_awaited_with_a_timeout(pair: Pair) -> None:
    async def take() -> list[fw.Notification]:
        with pytest.raises(fw.DeadlineExceeded):
            await pair.far.notification(timeout=0.05)
        with pytest.raises(fw.DeadlineExceeded):
            await pair.far.notification(timeout=0)
        asyncio.get_running_loop().call_later(0.05, pair.near.send, b"job", 7)
        awaited = await pair.far.notification(timeout=20)
        pair.near.notify(8).wait()
        return [awaited, await pair.far.notification()]

    assert run(take()) == [fw.Notification(7, 0, b"job"), fw.Notification(8, 0, b"")]
    with pytest.raises(fw.InvalidArgument, match=r"notification: .*timeout"):
        run(pair.far.notification(timeout=-1))


@pytest.mark.parametrize("fabric", ["shm", "tcp"])
def test_an_iteration_goes_on_after_a_wait_that_was_given_up(
    make_pair: Callable[..., Pair], fabric: str
) -> None:
    pair = make_pair(fabrics=[fabric])

    async def take() -> list[int]:
        notifications = aiter(pair.far.notifications())
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(anext(notifications), 0.05)
        tags = []
        for tag in range(100):
            # At the same moment as the end of the wait, or before or after it.
            pair.near.notify(tag)
            with contextlib.suppress(asyncio.TimeoutError):
                tags.append((await asyncio.wait_for(anext(notifications), 0.0002)).tag)
        while len(tags) < 100:
            tags.append((await anext(notifications)).tag)
        return tags

    assert run(take()) == list(range(100))


def test_several_tasks_share_what_comes(pair: Pair) -> None:
    async def take() -> list[int]:
        tasks = [asyncio.create_task(pair.far.notification()) for _ in range(20)]
        await asyncio.sleep(0.01)
        for tag in range(20):
            pair.near.notify(tag)
        return sorted([(await task).tag for task in tasks])

    assert run(take()) == list(range(20))


def test_awaiting_beside_a_handler_is_refused(pair: Pair) -> None:
    pair.far.on_notification(lambda notification: None)
    with pytest.raises(fw.FailedPrecondition, match="handler"):
        run(pair.far.notification(timeout=20))
    pair.far.on_notification(None)


@pytest.mark.parametrize("side", ["near", "far"])
def test_an_awaited_notification_ends_with_the_channel(pair: Pair, side: str) -> None:
    async def wait() -> None:
        asyncio.get_running_loop().call_later(0.05, getattr(pair, side).close)
        await pair.far.notification(timeout=20)

    ends = {"near": (fw.Unavailable,), "far": (fw.Cancelled, fw.FailedPrecondition)}
    with pytest.raises(ends[side]):
        run(wait())


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


INTERRUPTED = """
import asyncio
import farwrite as fw

async def main():
    with fw.Device() as device, fw.Device() as other:
        channel, far = other.connect(device.endpoint), device.accept()
        with fw.box.serve() as server, server.connect() as client:
            print("ready", flush=True)
            await asyncio.to_thread(CALL)

asyncio.run(main())
"""


@pytest.mark.parametrize(
    "call",
    [
        "device.accept",
        "device.connect, '127.0.0.1:1', None",
        "channel.lookup, 'absent', None",
        "fw.TensorSender, channel, 'absent', None",
        "client.attach, 'absent', None",
        "client.subscribe, 'absent', None",
    ],
)
def test_a_call_in_a_thread_ends_with_the_with_block_that_ctrl_c_ends(call: str) -> None:
    program = [sys.executable, "-c", INTERRUPTED.replace("CALL", call)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.3)  # until the call waits
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=20)
        finally:
            process.kill()
    assert process.returncode == -signal.SIGINT
