"""An object keeps open what it works through, even when the program keeps that object alone."""

from __future__ import annotations

import gc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import farwrite as fw

SMALL_BOX: dict[str, Any] = {"memory": "16M", "pool": "1M", "segment_bytes": 1 << 20}


def _collected(handle: Any) -> Any:
    gc.collect()
    return handle


def _met(open_end: Callable[[fw.Channel], Any], peer: fw.Device) -> tuple[Any, fw.Channel]:
    """Return what `open_end` makes of a channel that it alone has, and the peer's channel."""
    with ThreadPoolExecutor(1) as pool:
        end = pool.submit(lambda: open_end(fw.Device().connect(peer.endpoint, 20)))
        far = peer.accept(20)
        return _collected(end.result(20)), far


def test_a_channel_keeps_the_device_that_connected(device: fw.Device) -> None:
    near, far = _met(lambda channel: channel, device)
    near.send(b"still here").wait(10)
    assert far.wait_notification(10).message == b"still here"
    far.notify(7).wait(10)
    assert near.wait_notification(10).tag == 7


def test_a_channel_keeps_the_device_that_accepted(device: fw.Device) -> None:
    listening = fw.Device()
    near = device.connect(listening.endpoint, 20)
    far = listening.accept(20)
    del listening
    gc.collect()
    near.send(b"still here").wait(10)
    assert far.wait_notification(10).message == b"still here"


def test_an_array_of_a_peer_keeps_its_channel(device: fw.Device) -> None:
    published = device.publish("w", device.allocate(4, "int32"))
    published.array[:] = 3
    array, _ = _met(lambda channel: channel.lookup("w", 10), device)
    assert array.read(timeout=10).tolist() == [3, 3, 3, 3]


def test_the_notifications_keep_their_channel(device: fw.Device) -> None:
    notifications, far = _met(lambda channel: channel.notifications(), device)
    far.notify(7).wait(10)
    assert next(iter(notifications)).tag == 7


@pytest.mark.parametrize("dropped", ["sender", "receiver"])
def test_an_end_of_a_stream_keeps_its_channel(dropped: str, device: fw.Device) -> None:
    def sends(channel: fw.Channel) -> fw.TensorSender:
        return fw.TensorSender(channel, "t", 20)

    def receives(channel: fw.Channel) -> fw.TensorReceiver:
        return fw.TensorReceiver(channel, "t", 4, "int32")

    with ThreadPoolExecutor(1) as pool:
        alone, other = (sends, receives) if dropped == "sender" else (receives, sends)
        end = pool.submit(lambda: alone(fw.Device().connect(device.endpoint, 20)))
        kept = other(device.accept(20))
        ends: list[Any] = [_collected(end.result(20)), kept]
    sender, receiver = ends if dropped == "sender" else reversed(ends)
    sender.send(np.arange(4, dtype="int32")).wait(10)
    assert receiver.receive(10).tolist() == [0, 1, 2, 3]
    sender.close(10)


@pytest.mark.parametrize("kind", ["completion", "capsule"])
def test_a_channel_ends_with_the_last_object_that_needs_it(kind: str, device: fw.Device) -> None:
    make: dict[str, Callable[[fw.Channel], Any]] = {
        "completion": lambda channel: (channel.notify(7).wait(10), channel.flush())[1],
        "capsule": lambda channel: (channel.notify(7).wait(10), channel.as_capsule())[1],
    }
    kept, far = _met(make[kind], device)
    assert far.wait_notification(10).tag == 7
    with pytest.raises(fw.DeadlineExceeded):
        far.wait_notification(0.1)
    del kept
    gc.collect()
    with pytest.raises(fw.Unavailable):
        far.wait_notification(10)


def test_a_segment_keeps_its_client_and_the_server_of_this_process() -> None:
    segment = _collected(fw.box.serve(**SMALL_BOX).connect().create("w", 4))
    assert segment.fill(2) == 1
    assert segment.read().tolist() == [2, 2, 2, 2]


def test_objects_of_a_segment_keep_it() -> None:
    def segment() -> fw.box.Segment:
        return fw.box.serve(**SMALL_BOX).connect().create("w", 4)

    update = _collected(segment().post.fill(1))
    assert update.wait(10) == 1
    first = segment()
    first.fill(1)
    updates, cached = first.updates(since=0), first.cached()
    del first
    gc.collect()
    assert next(iter(updates)) == 1
    assert not cached.stale


def test_a_model_keeps_its_connection() -> None:
    model = {"w": np.ones(4, "float32")}
    with fw.box.serve(**SMALL_BOX) as server:
        publisher = _collected(server.connect().publisher("model", model))
        assert publisher.publish(model) == 1
        subscriber = _collected(server.connect().subscribe("model"))
        with subscriber.latest(timeout=10) as latest:
            assert latest["w"].sum() == 4
    publisher = _collected(fw.box.serve(**SMALL_BOX).publisher("model", model))
    assert publisher.publish(model) == 1


def test_a_server_that_has_a_client_goes_with_its_last_reference() -> None:
    server = fw.box.serve(**SMALL_BOX)
    server.publisher("model", [np.ones(1)]).close()
    endpoint = server.endpoint
    gc.disable()  # no cycle keeps it until a search
    try:
        del server
        with pytest.raises((fw.Unavailable, fw.DeadlineExceeded)):
            fw.box.connect(endpoint, timeout=0)
    finally:
        gc.enable()


def test_helpers_of_training_keep_their_connection() -> None:
    training = fw.box.training
    with fw.box.serve(**SMALL_BOX) as server:
        weights = [np.ones(4, "float32")]
        seasgd = _collected(training.SEASGD(server.connect(), "s", weights))
        seasgd.step(weights)
        steps = _collected(training.AsyncSGD(server.connect(), "a", weights, 0.5))
        steps.step([np.ones(4, "float32")], weights)
        stop = _collected(training.Termination(server.connect(), "t", 1, target=1))
        assert stop.advance(0)
        group = _collected(training.BoxGroup(server.connect(), "g", weights, rank=0, size=1))
        group.all_reduce(weights)
        for helper in (seasgd, steps, stop, group):
            helper.close()
