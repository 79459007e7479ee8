"""Tensors in asyncio: tasks that wait take no thread, miss nothing, and lose nothing."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import farwrite as fw
from conftest import Pair
from farwrite import doorbell
from loop_without_pool import run

READERS = 20
ARRAYS = 30


@pytest.fixture(params=["shm", "tcp"])
def pair(make_pair: Callable[..., Pair], request: pytest.FixtureRequest) -> Pair:
    return make_pair(fabrics=[request.param])


@pytest.fixture
def no_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that missed its wake-up would wait for longer than the test."""
    monkeypatch.setattr(doorbell, "_LONGEST_SLEEP", 1000.0)


def edge(pair: Pair, name: str, **options: Any) -> tuple[fw.TensorSender, fw.TensorReceiver]:
    receiver = fw.TensorReceiver(pair.far, name, **options)
    return fw.TensorSender(pair.near, name, timeout=20), receiver


KINDS: list[dict[str, Any]] = [{}, {"copy": True}, {"shape": (4,), "dtype": "i4"}]


@pytest.mark.usefixtures("no_second_look")
def test_tasks_that_share_a_channel_miss_no_array(pair: Pair) -> None:
    edges = [edge(pair, str(n), **KINDS[n % len(KINDS)]) for n in range(READERS)]

    async def consume(receiver: fw.TensorReceiver) -> list[int]:
        return [int(array[0]) async for array in receiver]

    async def produce() -> None:
        order = [n for n in range(READERS) for _ in range(ARRAYS)]
        random.Random(0).shuffle(order)
        sent = [0] * READERS
        for n in order:
            # The tasks that wait run now and then: between two arrays, or behind several.
            await edges[n][0].send(np.full(4, sent[n], "i4"))
            sent[n] += 1
        for sender, _ in edges:
            async with sender:
                pass

    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*(consume(receiver) for _, receiver in edges), produce())

    assert run(all_of_them())[:READERS] == [list(range(ARRAYS))] * READERS


@pytest.mark.usefixtures("no_second_look")
def test_a_thread_that_waits_for_the_same_channel_takes_no_wakeup(pair: Pair) -> None:
    beside_sender, beside = edge(pair, "of a thread")
    sender, receiver = edge(pair, "of a task")
    taken: list[int] = []
    took = threading.Semaphore(0)

    def consume_in_thread() -> None:
        taken.extend(int(array[0]) for array in beside)

    def produce() -> None:
        for step in range(50):
            sender.send(np.full(4, step)).wait(20)
            beside_sender.send(np.full(4, step)).wait(20)
            assert took.acquire(timeout=20)  # nothing that comes later wakes the task
        sender.close(20)
        beside_sender.close(20)

    async def consume() -> list[int]:
        busy = asyncio.create_task(keep_busy())
        try:
            received = []
            async for array in receiver:
                received.append(int(array[0]))
                took.release()
            return received
        finally:
            busy.cancel()

    async def keep_busy() -> None:
        """Let the thread look at the channel first."""
        while True:
            time.sleep(0.002)
            await asyncio.sleep(0)

    threads = [threading.Thread(target=consume_in_thread), threading.Thread(target=produce)]
    for thread in threads:
        thread.start()
    received = run(consume())
    for thread in threads:
        thread.join(60)
    assert received == taken == list(range(50))


@pytest.mark.usefixtures("no_second_look")
@pytest.mark.parametrize("waits", ["receiver", "sender"])
def test_what_another_thread_takes_before_the_task_sleeps_is_found(
    pair: Pair, waits: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender, receiver = edge(pair, "of a task")
    beside = fw.TensorReceiver(pair.near if waits == "sender" else pair.far, "of a thread")
    arm = doorbell.Doorbell.arm
    before = iter([True])

    def meanwhile() -> None:
        """Bring what the task waits for, and let a thread take it off the channel."""
        if waits == "receiver":
            sender.send(np.full(4, 7))
        else:
            receiver.receive(20)
            receiver.close()
        time.sleep(0.2)
        thread = threading.Thread(target=beside.try_receive)
        thread.start()
        thread.join(20)

    def arm_late(bell: doorbell.Doorbell) -> bool:
        if next(before, False):
            meanwhile()
        return arm(bell)

    async def wait() -> None:
        if waits == "receiver":
            assert (await receiver.receive_async(20))[0] == 7
            return
        async with sender:
            sender.send(np.full(4, 7))

    monkeypatch.setattr(doorbell.Doorbell, "arm", arm_late)
    start = time.monotonic()
    run(wait())
    assert time.monotonic() - start < 10


def test_a_task_is_told_that_a_handler_takes_what_it_waits_for(pair: Pair) -> None:
    _, receiver = edge(pair, "of a handler")

    async def wait() -> None:
        with pytest.raises(fw.FailedPrecondition, match="a handler takes"):
            await pair.far.notification()
        with pytest.raises(fw.FailedPrecondition, match="a handler takes"):
            await receiver.receive_async()
        pair.near.on_notification(None)
        asyncio.get_running_loop().call_later(0.05, pair.near.on_notification, lambda _: None)
        with pytest.raises(fw.FailedPrecondition, match="a handler takes"):
            await pair.near.notification()

    pair.far.on_notification(lambda _: None)
    run(wait())


def test_one_array_is_awaited_with_a_timeout(pair: Pair) -> None:
    sender, receiver = edge(pair, "awaited")

    async def take() -> list[int]:
        for timeout in (0, 0.05):
            with pytest.raises(fw.DeadlineExceeded):
                await receiver.receive_async(timeout)
        asyncio.get_running_loop().call_later(0.05, sender.send, np.arange(3))
        array = await receiver.receive_async(timeout=20)
        return [int(number) for number in array]

    assert run(take()) == [0, 1, 2]
    with pytest.raises(fw.InvalidArgument, match=r"receive_async: .*timeout"):
        run(receiver.receive_async(-1))


def test_an_iteration_goes_on_after_a_wait_that_was_given_up(pair: Pair) -> None:
    sender, receiver = edge(pair, "impatient")

    async def take() -> list[int]:
        arrays = aiter(receiver)
        taken = []
        for step in range(100):
            # At the same moment as the end of the wait, or before or after it.
            sender.send(np.full(4, step))
            with contextlib.suppress(asyncio.TimeoutError):
                taken.append(int((await asyncio.wait_for(anext(arrays), 0.0002))[0]))
        while len(taken) < 100:
            taken.append(int((await anext(arrays))[0]))
        return taken

    assert run(take()) == list(range(100))


@pytest.mark.usefixtures("no_second_look")
@pytest.mark.parametrize("end", ["receiver", "far", "near", "right"])
def test_a_task_that_waits_hears_of_the_end(pair: Pair, end: str) -> None:
    _, receiver = edge(pair, "ended")
    ending = receiver.close if end == "receiver" else getattr(pair, end).close

    async def wait() -> None:
        asyncio.get_running_loop().call_later(0.05, ending)
        await receiver.receive_async()

    with pytest.raises((fw.Cancelled, fw.Unavailable, fw.FailedPrecondition)):
        run(wait())


def test_nothing_of_a_loop_is_kept_when_nobody_waits(pair: Pair) -> None:
    _, receiver = edge(pair, "given up")

    async def give_up() -> None:
        waiting = [asyncio.create_task(receiver.receive_async()) for _ in range(3)]
        await asyncio.sleep(0.01)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert not pair.far.doorbells

    run(give_up())


def test_a_loop_that_was_closed_with_a_waiting_task_keeps_no_descriptor(pair: Pair) -> None:
    ends = edge(pair, "left")
    waiting = []
    for _ in range(3):
        loop = asyncio.new_event_loop()
        waiting.append(loop.create_task(ends[1].receive_async()))
        waiting[-1]._log_destroy_pending = False  # type: ignore[attr-defined]
        loop.run_until_complete(asyncio.sleep(0.02))
        loop.close()
    assert len(pair.far.doorbells) == 1  # the next wait, or close(), forgets it
    pair.far.close()
    assert not pair.far.doorbells


@pytest.mark.parametrize(
    "waits", ["notification", "receiver", "copies", "static", "sender", "bytes of a stopped peer"]
)
def test_a_task_for_which_nothing_comes_sleeps(pair: Pair, waits: str) -> None:
    options = {"copies": KINDS[1], "static": KINDS[2]}.get(waits, KINDS[0])
    sender, receiver = edge(pair, "nothing", **options)

    async def wait() -> None:
        if waits == "notification":
            await pair.far.notification()
        elif waits == "sender":
            async with sender:
                sender.send(np.full(4, 7, "i4"))
        elif waits == "bytes of a stopped peer":
            await doorbell.take_async(
                pair.far, lambda: None, lambda: None, timeout=60, reading=lambda: True
            )
        else:
            await receiver.receive_async()

    async def count() -> int:
        """Count how often the loop looks for something to do in half a second."""
        selector = asyncio.get_running_loop()._selector  # type: ignore[attr-defined]
        select, looks = selector.select, itertools.count()
        selector.select = lambda timeout: (next(looks), select(timeout))[1]
        task = asyncio.create_task(wait())
        await asyncio.sleep(0.5)
        looked = next(looks)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return looked

    most = 200 if waits == "bytes of a stopped peer" else 50  # which no doorbell announces
    assert run(count()) < most, "it polls"
