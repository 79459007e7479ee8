"""Completion: what keeps, waits, cancels and awaits."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

import farwrite as fw
from conftest import Pair


class Pending:
    """Stands in for an operation of the core that ends when the test says so."""

    def __init__(self) -> None:
        self.outcome: tuple[int, str] | None = None
        self.is_settled = False
        self.callbacks: list[Callable[[int, str], object]] = []

    def done(self) -> bool:
        return self.outcome is not None

    def settled(self) -> bool:
        return self.is_settled

    def on_done(self, callback: Callable[[int, str], object]) -> None:
        if self.outcome is None:
            self.callbacks.append(callback)
        else:
            callback(*self.outcome)

    def end(self, code: int = 0, message: str = "", *, settled: bool = True) -> None:
        self.outcome = (code, message)
        self.is_settled = settled
        for callback in self.callbacks:
            callback(code, message)


class Payload:
    """Something a weak reference can watch."""


def completion(pending: Pending, keep: object = None) -> fw.Completion:
    return fw.Completion(cast("Any", pending), keep)


def test_ends_at_once_on_shm(pair: Pair) -> None:
    pair.far.publish("inbox", pair.far.allocate(8))
    done = pair.near.write(bytes(8), pair.near.lookup("inbox"))
    assert done.done()
    assert done.settled()
    done.wait(0)
    done.wait()
    done.cancel()
    assert "done" in repr(done)


def test_keeps_its_payload_until_settled_even_when_dropped() -> None:
    pending, payload = Pending(), Payload()
    watched = weakref.ref(payload)
    completion(pending, payload)
    del payload
    gc.collect()
    assert watched() is not None
    pending.end()
    gc.collect()
    assert watched() is None


def test_a_cancelled_operation_keeps_its_payload_while_bytes_may_move() -> None:
    cancelled, payload = Pending(), Payload()
    watched = weakref.ref(payload)
    completion(cancelled, payload)
    del payload
    cancelled.end(int(fw.StatusCode.CANCELLED), "cancelled", settled=False)
    gc.collect()
    assert watched() is not None
    cancelled.is_settled = True
    # The next operation that goes on sweeps.
    later = Pending()
    completion(later, Payload())
    later.end()
    gc.collect()
    assert watched() is None


def test_can_be_awaited(pair: Pair) -> None:
    pair.far.publish("inbox", pair.far.allocate(4, "int64"))
    remote = pair.near.lookup("inbox")

    async def write() -> None:
        await pair.near.write(np.arange(4), remote)
        await pair.near.flush()

    asyncio.run(write())


def test_an_await_is_woken_from_another_thread() -> None:
    pending = Pending()

    async def wait() -> None:
        threading.Timer(0.05, pending.end).start()
        await completion(pending)

    asyncio.run(asyncio.wait_for(wait(), 10))


def test_an_await_raises_what_became_of_the_operation() -> None:
    pending = Pending()

    async def wait() -> None:
        asyncio.get_running_loop().call_soon(pending.end, int(fw.StatusCode.PEER_DEAD), "gone")
        await completion(pending)

    with pytest.raises(fw.PeerDead, match="gone"):
        asyncio.run(wait())


def test_an_await_of_a_failed_operation_raises(pair: Pair) -> None:
    pair.near.close()

    async def notify() -> None:
        await pair.near.notify(1)

    with pytest.raises((fw.FailedPrecondition, fw.Cancelled)):
        asyncio.run(notify())


def test_an_operation_may_end_after_its_awaiter_and_its_loop() -> None:
    pending = Pending()

    async def wait_briefly() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(_await(pending), 0.05)

    async def _await(pending: Pending) -> None:
        await completion(pending)

    asyncio.run(wait_briefly())
    pending.end()
