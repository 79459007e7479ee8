"""An object of every class that holds a handle, all of them in use, with a peer process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

import farwrite as fw
from farwrite import box as boxes
from farwrite.box import training
from matrix import far_side
from matrix.calls import MODEL, ONES, WORLD
from matrix.functions import MODULES
from matrix.kinds import SHORT
from processes import PeerProcess


@contextlib.contextmanager
def the_world(fabric: str) -> Iterator[PeerProcess]:
    """Fill `WORLD`, and yield the peer, which is killed at the end."""
    options: dict[str, Any] = {"fabrics": [fabric]}
    owner = os.getpid()
    with contextlib.ExitStack() as stack:
        link = stack.enter_context(fw.Device())  # tells the peer what to do
        peer = stack.enter_context(PeerProcess(link.endpoint))
        link.accept(20)
        stack.callback(peer.kill)
        device = stack.enter_context(fw.Device(send_limit="1G", receive_limit="1G", **options))
        folder = tempfile.mkdtemp()
        stack.callback(shutil.rmtree, folder)
        server = stack.enter_context(boxes.serve(snapshot=folder, **far_side.BOX, **options))
        WORLD.update(process=owner, loop=event_loop(stack), link=link, stack=stack)
        WORLD.update(MODULES, timeout=SHORT, fabric=fabric)
        WORLD["peer process"] = peer
        peer.start(far_side.open_all, device.endpoint, server.endpoint, fabric)
        near, tensors = by_number(device.accept(20), device.accept(20))
        receiver = fw.TensorReceiver(tensors, "edge", (8,), "float32")
        sender = fw.TensorSender(tensors, "to the peer", 20)
        endpoints = peer.result()
        client = stack.enter_context(connect(endpoints["box"], options))
        models = stack.enter_context(connect(endpoints["models"], options))
        WORLD.update(endpoints, endpoints=endpoints, Inbox=near.lookup("inbox"))
        WORLD.update(models=models, near_tensors=tensors)
        WORLD.update(of_channels(device, near), TensorReceiver=receiver, TensorSender=sender)
        WORLD.update(of_the_box(client, models), Server=server, Client=client)
        WORLD.update(of_training(client))
        try:
            yield peer
        finally:
            if os.getpid() == owner:
                WORLD.clear()
            else:
                stack.pop_all()  # a forked child ends, and all this is its parent's


def by_number(*channels: fw.Channel) -> list[fw.Channel]:
    """Order channels by their first notification: they may be accepted in any order."""
    return sorted(channels, key=lambda channel: channel.wait_notification(20).tag)


def event_loop(stack: contextlib.ExitStack) -> asyncio.AbstractEventLoop:
    """Run an event loop in a thread until the stack ends."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    stack.callback(loop.close)
    stack.callback(thread.join)
    stack.callback(loop.call_soon_threadsafe, loop.stop)
    return loop


def connect(endpoint: str, options: dict[str, Any]) -> boxes.Client:
    return boxes.connect(endpoint, timeout=SHORT, segment_bytes=4 << 20, **options)


def of_channels(device: fw.Device, near: fw.Channel) -> dict[str, Any]:
    return {
        "Device": device,
        "Channel": near,
        "RegisteredArray": device.publish("array", device.allocate(8)),
        "RemoteArray": near.lookup("outbox"),
        "Completion": near.notify(1),
        "MemoryRegistration": device.register(bytearray(64)),
        "Notifications": near.notifications(),
    }


def of_the_box(client: boxes.Client, models: boxes.Client) -> dict[str, Any]:
    segment = client.create("w", 8, "float32")
    told: list[object] = [None]
    watch = segment.on_update(told.append)
    segment.fill(1)
    update = segment.post.fill(1)
    update.wait(20)
    publisher = client.publisher("mine", MODEL)
    publisher.publish(MODEL)
    subscriber = models.subscribe("model")
    return {
        "Segment": segment,
        "second": client.create("second", 8, "float32"),
        "Posted": segment.post,
        "Update": update,
        "Updates": segment.updates(),
        "Watch": watch,
        "told": told,
        "Lease": segment.lease(),
        "Cached": segment.cached(),
        "Event": client.event("event"),
        "Publisher": publisher,
        "Subscriber": subscriber,
        "Model": subscriber.latest(),
    }


def of_training(client: boxes.Client) -> dict[str, Any]:
    def weights() -> list[Any]:
        return [np.array(ONES)]

    patience = max(SHORT, 2.0)  # a member that is late once, on a busy machine, has left for good
    group = training.BoxGroup(client, "group", weights(), 0, 1, timeout=patience)
    return {
        "SEASGD": training.SEASGD(client, "easgd", weights(), timeout=SHORT),
        "AsyncSGD": training.AsyncSGD(client, "async", weights(), 0.1, timeout=SHORT),
        "BoxGroup": group,
        "HybridSEASGD": training.HybridSEASGD(
            client, "hybrid", weights(), timeout=patience,
            all_reduce=group.all_reduce, broadcast=group.broadcast, root=True,
        ),
        "Termination": training.Termination(client, "end", 1, 5, timeout=SHORT),
    }  # fmt: skip
