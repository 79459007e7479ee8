"""What opens handles, uses each once, and closes them: rows beside those of `calls.py`.

A row opens everything itself, so that each call to the system of a whole life can be refused.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import farwrite as fw
from farwrite import box as boxes
from farwrite.box import training
from matrix.calls import WORLD
from matrix.kinds import Row, own

LARGE = 1 << 16
"""Elements of float32, 256 KiB: memory must be made for them."""
SEGMENT = 2 << 20
"""Bytes that a device makes at a time: few, because each page of them costs."""
PATIENCE = 5.0
"""Seconds: no call waits so long if the other side is fine."""


numbers = itertools.count()
"""Of folders and segments."""


def device(**options: Any) -> fw.Device:
    return fw.Device(fabrics=WORLD["fabrics"], segment_bytes=SEGMENT, **options)


@contextlib.contextmanager
def pair(**options: Any) -> Iterator[tuple[fw.Device, fw.Channel, fw.Channel]]:
    """A device, and its channel to another one of this process, from both ends."""
    with (
        device(**options) as one,
        device(**options) as two,
        one.connect(two.endpoint, PATIENCE) as near,
        two.accept(PATIENCE) as far,
    ):
        yield one, near, far


def memory() -> None:
    with device() as one:
        arrays = [one.allocate(LARGE, "float32") for _ in range(4)]
        one.publish("array", arrays[0])


def messages(**options: Any) -> None:
    with pair(**options) as (near_device, near, far):
        inbox = far.allocate(LARGE, "float32")
        far.publish("inbox", inbox)
        remote = near.lookup("inbox", PATIENCE)
        near.write(np.ones(LARGE, "float32"), remote).wait(PATIENCE)
        near.flush().wait(PATIENCE)
        assert inbox.array.sum() == LARGE
        sources = near_device.allocate(LARGE, "float32")
        sources.array[:] = 1
        near_device.publish("outbox", sources)
        assert far.lookup("outbox", PATIENCE).read(timeout=PATIENCE).sum() == LARGE
        near.send(b"all of it").wait(PATIENCE)
        assert bytes(far.wait_notification(PATIENCE).message) == b"all of it"


def stream() -> None:
    with pair() as (_, near, far):
        receiver = fw.TensorReceiver(far, "edge")
        sender = fw.TensorSender(near, "edge", PATIENCE)
        sent = sender.send(np.ones(LARGE, "float32"), PATIENCE)
        assert receiver.receive(PATIENCE).sum() == LARGE
        sent.wait(PATIENCE)
        sender.close(PATIENCE)
        receiver.close()


def served(**options: Any) -> boxes.Server:
    return boxes.serve(memory="16M", segment_bytes=SEGMENT, fabrics=WORLD["fabrics"], **options)


def connected(server: boxes.Server) -> boxes.Client:
    return boxes.connect(
        server.endpoint, timeout=PATIENCE, segment_bytes=SEGMENT, fabrics=WORLD["fabrics"]
    )


def box() -> None:
    with served() as server, connected(server) as client:
        segment = client.create("w", LARGE, "float32")
        segment.write(np.ones(LARGE, "float32"))
        zeros = client.array(LARGE, "float32")
        zeros.array[:] = 0
        segment.accumulate(zeros)
        assert segment.read().sum() == LARGE
        with segment.lease() as lease:
            assert lease.array.sum() == LARGE


def far_box() -> None:
    """A segment for which the peer's box needs new memory: larger than all before."""
    number = next(numbers)
    size = (1 << 20) + (number << 16)
    segment = WORLD["Client"].create(f"large {number}", size, "float32")
    segment.write(np.ones(size, "float32"))
    segment.free()


def models() -> None:
    with served() as server, connected(server) as client:
        tree = {"w": np.ones(LARGE, "float32")}
        with client.publisher("model", tree) as publisher:
            publisher.publish(tree)
            with client.subscribe("model") as subscriber, subscriber.latest() as model:
                assert model["w"].sum() == LARGE


def snapshots() -> None:
    folder = f"{WORLD['folder']}/{next(numbers)}"
    with served(snapshot=folder, snapshot_every=60) as server, connected(server) as client:
        client.create("w", LARGE, "float32").fill(1)
        server.snapshot()
    with served(snapshot=folder, restore=True) as server, connected(server) as client:
        assert client.attach("w").read().sum() == LARGE


def trainings() -> None:
    with served() as server, connected(server) as client:
        weights = [np.ones(LARGE, "float32")]
        with training.SEASGD(client, "easgd", weights) as easgd:
            easgd.step(weights)
        with training.BoxGroup(client, "group", weights, 0, 1) as group:
            group.all_reduce(weights)
        with training.AsyncSGD(client, "async", weights, 0.1) as asynchronous:
            asynchronous.step(weights, weights)
        with training.Termination(client, "end", 1, 5) as end:
            end.advance(0)


def metrics() -> None:
    with device() as one:
        assert one.serve_metrics().startswith("http")


OPENINGS: dict[str, Callable[[], object]] = {
    "memory": memory,
    "messages": messages,
    "encrypted": lambda: messages(encrypt=True, token="t" * 32),
    "stream": stream,
    "box": box,
    "far_box": far_box,
    "models": models,
    "snapshots": snapshots,
    "trainings": trainings,
    "metrics": metrics,
}


ROWS: dict[str, Row] = {
    name: own(lambda _, opens=opens: opens()) for name, opens in OPENINGS.items()
}
SENT_AWAY = ("Unavailable",)
"""Both sides are here. If the accepting side is the one that lacks something, it sends its peer
away, which says to look into that side's log."""
