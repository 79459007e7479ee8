"""Notifications and messages: taking, iterating, handlers."""

from __future__ import annotations

import queue
import threading
import urllib.request
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import farwrite as fw
from conftest import Pair


def test_tags_come_in_order(pair: Pair) -> None:
    for tag in range(1000):
        pair.near.notify(tag)
    assert [pair.far.wait_notification(10).tag for _ in range(1000)] == list(range(1000))


def test_a_tag_may_use_all_32_bits(pair: Pair) -> None:
    pair.near.notify(2**32 - 1)
    assert pair.far.wait_notification(10).tag == 2**32 - 1


def test_a_message_carries_its_bytes(pair: Pair) -> None:
    pair.near.send(b"hello", tag=4).wait()
    assert pair.far.wait_notification(10) == fw.Notification(4, 0, b"hello")
    pair.near.send(np.arange(3, dtype="uint8")).wait()
    assert pair.far.wait_notification(10).message == b"\0\1\2"
    assert pair.near.stats().messages_sent == 2
    assert pair.far.stats().messages_received == 2


def test_a_message_of_the_largest_size_arrives_and_a_longer_one_is_refused(pair: Pair) -> None:
    longest = bytes(pair.near.max_message_bytes)
    pair.near.send(longest).wait()
    assert pair.far.wait_notification(10).message == longest
    with pytest.raises(fw.OutOfRange, match="write"):
        pair.near.send(longest + b"!")


def test_trying_takes_one_or_none(pair: Pair) -> None:
    assert pair.far.try_notification() is None
    pair.near.notify(1).wait()
    assert pair.far.wait_notification(10).tag == 1
    assert pair.far.try_notification() is None


def test_waiting_in_vain_ends_in_time(pair: Pair) -> None:
    for timeout in (0, 0.05, 0.25):
        with pytest.raises(fw.DeadlineExceeded):
            pair.far.wait_notification(timeout)
    with pytest.raises(fw.InvalidArgument, match="timeout"):
        pair.far.wait_notification(-1)


def test_iterating_ends_when_the_peer_closes(pair: Pair) -> None:
    for tag in (1, 2, 3):
        pair.near.notify(tag).wait()
    taken = iter(pair.far.notifications())
    assert next(taken).tag == 1
    pair.near.close()
    assert [notification.tag for notification in taken] == [2, 3]
    assert pair.far.peer_state is fw.PeerState.CLOSED


def test_iterating_ends_when_the_channel_is_closed_here(pair: Pair) -> None:
    timer = threading.Timer(0.1, pair.far.close)
    timer.start()
    assert list(pair.far.notifications()) == []
    timer.join()


def test_a_handler_gets_queued_and_later_notifications(pair: Pair) -> None:
    pair.near.notify(1).wait()
    taken: list[fw.Notification] = []
    all_taken = threading.Event()

    def handle(notification: fw.Notification) -> None:
        taken.append(notification)
        if len(taken) == 3:
            all_taken.set()

    pair.far.on_notification(handle)
    pair.near.notify(2)
    pair.near.send(b"three", tag=3)
    assert all_taken.wait(10)
    assert [notification.tag for notification in taken] == [1, 2, 3]
    assert taken[2].message == b"three"

    pair.far.on_notification(None)
    pair.near.notify(4)
    assert pair.far.wait_notification(10).tag == 4
    assert len(taken) == 3


def test_what_a_handler_raises_is_reported_and_harms_nobody(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[Any] = []
    handled = threading.Event()
    monkeypatch.setattr("sys.unraisablehook", reported.append)

    def handle(notification: fw.Notification) -> None:
        if notification.tag == 1:
            raise ValueError("bad day")
        handled.set()

    pair.far.on_notification(handle)
    pair.near.notify(1)
    pair.near.notify(2)
    assert handled.wait(10)
    pair.far.on_notification(None)
    assert [report.exc_type for report in reported] == [ValueError]
    reported.clear()


def test_a_handler_may_not_replace_itself(pair: Pair) -> None:
    outcome: list[BaseException] = []
    handled = threading.Event()

    def handle(notification: fw.Notification) -> None:
        try:
            pair.far.on_notification(None)
        except fw.FailedPrecondition as error:
            outcome.append(error)
        handled.set()

    pair.far.on_notification(handle)
    pair.near.notify(1)
    assert handled.wait(10)
    assert len(outcome) == 1
    pair.far.on_notification(None)


def test_a_handler_may_answer(pair: Pair) -> None:
    def answer(notification: fw.Notification) -> None:
        pair.far.notify(notification.tag + 1)

    pair.far.on_notification(answer)
    pair.near.notify(1)
    assert pair.near.wait_notification(10).tag == 2
    pair.far.on_notification(None)


def test_what_a_handler_may_not_close_stays_open(pair: Pair) -> None:
    url = pair.right.serve_metrics()
    states: queue.SimpleQueue[object] = queue.SimpleQueue()

    def close(_: fw.Notification) -> None:
        for end in (pair.far, pair.right):
            try:
                end.close()
            except fw.FailedPrecondition:
                states.put((pair.far.closed, repr(pair.right)))

    pair.far.on_notification(close)
    pair.near.notify(1)
    for _ in range(2):
        assert states.get(timeout=10) == (False, f"<Device at {pair.right.endpoint}>")
    with urllib.request.urlopen(url, timeout=10) as answer:
        assert answer.status == 200
    pair.far.close()
    assert pair.far.closed


def test_two_lanes_deliver_everything(make_pair: Callable[..., Pair]) -> None:
    pair = make_pair(lanes=2, pollers=2)
    for tag in range(200):
        pair.near.notify(tag, lane=tag % 2)
    taken = [pair.far.wait_notification(10) for _ in range(200)]
    for lane in (0, 1):
        assert [n.tag for n in taken if n.lane == lane] == list(range(lane, 200, 2))


def test_a_closed_channel_refuses(pair: Pair) -> None:
    pair.near.close()
    pair.near.close()
    assert pair.near.closed
    assert pair.near.peer_state is fw.PeerState.CLOSED
    with pytest.raises((fw.FailedPrecondition, fw.Cancelled)):
        pair.near.notify(1).wait()
    with pytest.raises((fw.FailedPrecondition, fw.Cancelled)):
        pair.near.wait_notification(1)


def test_a_channel_describes_itself(pair: Pair) -> None:
    assert pair.near.peer_state is fw.PeerState.ALIVE
    assert pair.right.endpoint in repr(pair.near)
    assert "shm" in repr(pair.near)
    pair.near.close()
    assert repr(pair.near).endswith(" over shm, closed>")
