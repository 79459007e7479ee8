"""Awaits that are done at once leave the event loop its turns."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import numpy as np
import pytest

import farwrite as fw
from conftest import Pair

LIMIT = 30
"""Seconds after which a loop that was given no turn gives up."""

Step = Callable[[], Awaitable[object]]


def writing(pair: Pair) -> Step:
    pair.far.publish("turns", pair.far.allocate(8))
    target, source = pair.near.lookup("turns"), np.zeros(8, "uint8")

    async def step() -> None:
        await pair.near.write(source, target)

    return step


def notifying(pair: Pair) -> Step:
    async def step() -> None:
        await pair.near.notify(1)
        await pair.far.notification()

    return step


def iterating(pair: Pair) -> Step:
    notifications: AsyncIterator[fw.Notification] = aiter(pair.far.notifications())

    async def step() -> None:
        pair.near.notify(1).wait()
        await anext(notifications)

    return step


def receiving(pair: Pair) -> Step:
    receiver = fw.TensorReceiver(pair.far, "turns")
    sender = fw.TensorSender(pair.near, "turns")

    async def step() -> None:
        await sender.send(np.zeros(8))
        await receiver.receive_async()

    return step


STEPS = {step.__name__: step for step in (writing, notifying, iterating, receiving)}


async def repeat(step: Step, over: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT
    while not over():
        await step()
        assert time.monotonic() < end, "the loop was given no turn"


@pytest.mark.parametrize("kind", STEPS)
def test_other_tasks_go_on_beside_a_loop_of_awaits(pair: Pair, kind: str) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.001)
            ticks += 1

    async def main() -> None:
        step = STEPS[kind](pair)
        other = asyncio.create_task(tick())
        await repeat(step, lambda: ticks >= 3)
        other.cancel()

    asyncio.run(main())


@pytest.mark.parametrize("kind", STEPS)
def test_a_timeout_ends_a_loop_of_awaits(pair: Pair, kind: str) -> None:
    async def main() -> None:
        step = STEPS[kind](pair)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(repeat(step, lambda: False), 0.01)

    asyncio.run(main())


@pytest.mark.parametrize("kind", STEPS)
def test_ctrl_c_ends_a_loop_of_awaits(pair: Pair, kind: str) -> None:
    async def main() -> None:
        step = STEPS[kind](pair)
        await step()
        os.kill(os.getpid(), signal.SIGINT)  # asyncio.run cancels the task at the loop's next turn
        await repeat(step, lambda: False)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())


@pytest.mark.parametrize("kind", ["notification", "completion"])
def test_what_is_there_is_taken_at_once_by_a_task_that_sleeps_in_between(
    pair: Pair, kind: str
) -> None:
    async def main() -> None:
        for _ in range(3):
            sent = pair.near.notify(1)
            await asyncio.sleep(0.005)  # turns of the loop, and longer than one that is too long
            wanted = pair.far.notification() if kind == "notification" else waited(sent)
            with pytest.raises(StopIteration):  # it ends without a turn of the loop
                wanted.send(None)

    async def waited(sent: fw.Completion) -> None:
        await sent

    asyncio.run(main())


def test_without_a_loop_a_completion_that_is_done_is_awaited(pair: Pair) -> None:
    for _ in range(3):
        sent = pair.near.notify(1).__await__()
        with pytest.raises(StopIteration):
            next(sent)
        time.sleep(0.002)


def test_a_task_that_was_cancelled_in_a_sender_s_block_ends_its_stream(pair: Pair) -> None:
    async def send() -> None:
        with fw.TensorReceiver(pair.far, "turns") as receiver:
            async with fw.TensorSender(pair.near, "turns") as sender:
                await sender.send(np.zeros(8))
                receiver.try_receive()
                end = time.monotonic() + 0.01  # so that the next await takes a turn
                while time.monotonic() < end:
                    pass
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            with pytest.raises(fw.EndOfStream):
                receiver.receive(10)
            ended.append(True)

    ended: list[bool] = []
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(send())
    assert ended
