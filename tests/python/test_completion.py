"""Completion: what keeps, waits, cancels and awaits."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

import farwrite as fw
from conftest import Link, Pair
from processes import PeerState, bytes_in_sockets

# Of a write that no socket takes at once.
WORDS = (bytes_in_sockets() + (8 << 20)) // 8


class Pending:
    """Stands in for an operation of the core that ends when the test says so."""

    def __init__(self) -> None:
        self.outcome: tuple[int, str] | None = None
        self.callbacks: list[Callable[[int, str], object]] = []

    def done(self) -> bool:
        return self.outcome is not None

    def on_done(self, callback: Callable[[int, str], object]) -> None:
        if self.outcome is None:
            self.callbacks.append(callback)
        else:
            callback(*self.outcome)

    def end(self, code: int = 0, message: str = "") -> None:
        self.outcome = (code, message)
        for callback in self.callbacks:
            callback(code, message)


def completion(pending: Pending) -> fw.Completion:
    return fw.Completion(cast("Any", pending), None)


def test_ends_at_once_on_shm(pair: Pair) -> None:
    pair.far.publish("inbox", pair.far.allocate(8))
    done = pair.near.write(bytes(8), pair.near.lookup("inbox"))
    assert done.done()
    assert done.settled()
    done.wait(0)
    done.wait()
    done.cancel()
    assert repr(done) == "<Completion done>"


def test_the_repr_of_a_failed_write_says_why(pair: Pair) -> None:
    inbox = pair.far.publish("inbox", pair.far.allocate(8))
    target = pair.near.lookup("inbox")
    inbox.close()
    failed = pair.near.write(bytes(8), target)
    assert repr(failed).startswith("<Completion failed: write to ")
    assert "the memory was closed by its owner" in repr(failed)


def _open_inbox(state: PeerState) -> None:
    state.kept["inbox"] = state.channel.publish("inbox", state.channel.allocate(WORDS, "int64"))


def _write(link: Link, remote: fw.RemoteArray) -> tuple[fw.Completion, weakref.ref[Any]]:
    # A peer that is stopped takes nothing, so the kernel soon takes no more of it either.
    array = np.ones(WORDS, "int64")
    return link.channel.write(array, remote), weakref.ref(array)


def _released(watched: weakref.ref[Any]) -> bool:
    give_up = time.monotonic() + 20
    while watched() is not None and time.monotonic() < give_up:
        gc.collect()
        time.sleep(0.01)
    return watched() is None


def test_keeps_its_array_until_the_write_is_over(make_link: Callable[..., Link]) -> None:
    link = make_link(fabrics=["tcp"])
    link.peer.run(_open_inbox)
    remote = link.channel.lookup("inbox")
    with link.peer.stopped():
        waited, one = _write(link, remote)
        dropped, other = _write(link, remote)
        assert not dropped.done()
        del dropped
        gc.collect()
        assert one() is not None
        assert other() is not None
    waited.wait(20)
    assert _released(one)
    assert _released(other)


def test_a_cancelled_write_releases_its_array_when_it_is_over_and_not_before(
    make_link: Callable[..., Link],
) -> None:
    link = make_link(fabrics=["tcp"])
    link.peer.run(_open_inbox)
    remote = link.channel.lookup("inbox")
    with link.peer.stopped():
        cancelled, watched = _write(link, remote)
        cancelled.cancel()
        assert cancelled.done()
        gc.collect()
        assert watched() is not None
        assert not cancelled.settled()
    # Nothing else is posted, and nothing waits.
    assert _released(watched)
    assert cancelled.settled()


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_closed_device_pins_no_array(make_link: Callable[..., Link], cancelled: bool) -> None:
    link = make_link(fabrics=["tcp"])
    link.peer.run(_open_inbox)
    remote = link.channel.lookup("inbox")
    with link.peer.stopped():
        done, watched = _write(link, remote)
        if cancelled:
            done.cancel()
        with contextlib.suppress(fw.PeerSilent):
            link.device.close(timeout=0.1)
        assert _released(watched)


class Counted:
    """Stands in for an operation of the core that goes on, and counts what is asked of it."""

    calls = 0

    def __getattr__(self, name: str) -> Callable[..., bool]:
        def call(*arguments: object) -> bool:
            Counted.calls += 1
            return False

        return call


def test_an_operation_costs_the_same_however_many_are_under_way() -> None:
    before = Counted.calls
    under_way = [fw.Completion(cast("Any", Counted()), None) for _ in range(300)]
    assert Counted.calls - before <= 4 * len(under_way)


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
