"""What the peer process of the matrix has: a device, a box, and the other ends of what is used."""

from __future__ import annotations

import contextlib
import mmap
import os
import random
import socket
import threading
from typing import Any

import numpy as np

import farwrite as fw
from farwrite import box as boxes
from matrix.calls import MODEL
from processes import PeerState

BOX: dict[str, Any] = {"memory": "64M", "pool": "4M", "segment_bytes": 4 << 20}


def descriptors() -> dict[int, str]:
    """What each descriptor of this process is."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the folder's own
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
    return found


def accept_all(device: fw.Device) -> None:
    """Accept and drop what connects, until the device closes: few may wait for it."""
    with contextlib.suppress(fw.Error):
        while True:
            device.accept()


def open_all(state: PeerState, endpoint: str, box: str, fabric: str) -> dict[str, str]:
    """Connect to the device and to the box of the test. Return the endpoints that are here."""
    kept = state.kept
    kept["others"] = descriptors()
    options: dict[str, Any] = {"fabrics": [fabric]}
    kept["device"] = device = fw.Device(**options)
    threading.Thread(target=accept_all, args=[device], daemon=True).start()
    kept["channel"] = channel = device.connect(endpoint, 20)
    kept["tensors"] = tensors = device.connect(endpoint, 20)
    channel.notify(1)
    tensors.notify(2)
    kept["outbox"] = device.publish("outbox", device.allocate(8))
    kept["outbox"].array[:] = range(8)
    kept["inbox"] = channel.publish("inbox", channel.allocate(8))
    kept["receiver"] = fw.TensorReceiver(tensors, "to the peer", (8,), "float32")
    kept["sender"] = fw.TensorSender(tensors, "edge", 20)
    kept["server"] = server = boxes.serve(**BOX, **options)
    kept["models"] = models = boxes.serve(**BOX, **options)
    kept["publisher"] = models.publisher("model", MODEL)
    kept["publisher"].publish(MODEL)
    kept["client"] = boxes.connect(box, **options)
    return {"peer": device.endpoint, "box": server.endpoint, "models": models.endpoint}


def open_again(state: PeerState, endpoints: dict[str, str], fabric: str) -> None:
    """Open a device and boxes where another process had them."""
    options: dict[str, Any] = {"fabrics": [fabric]}
    state.kept["device"] = fw.Device(listen=endpoints["peer"], **options)
    for name in ("box", "models"):
        state.kept[name] = boxes.serve(listen=endpoints[name], **BOX, **options)


def babble(state: PeerState, seed: int) -> None:
    """Send random bytes where the library's messages go, and fill shared rings with them."""
    noise = random.Random(seed)
    for descriptor, what in descriptors().items():
        if state.kept["others"].get(descriptor) == what:
            continue
        with contextlib.suppress(OSError):  # it listens, is full, or was closed meanwhile
            if what.startswith("socket:"):
                with socket.socket(fileno=os.dup(descriptor)) as end:
                    end.send(noise.randbytes(4096), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            elif "mailbox" in what:
                with mmap.mmap(descriptor, 0) as ring:
                    ring[:] = noise.randbytes(len(ring))


def begin_change(state: PeerState) -> None:
    """Begin a change of the test's box whose bytes do not come: what would send them is held."""
    segment = state.kept["client"].create("amid", 1 << 18, "float32")
    holds, ends = threading.Event(), threading.Event()

    def hold(_: object) -> None:
        holds.set()
        ends.wait()

    state.kept["amid"] = segment.on_update(hold)
    segment.post.signal()
    holds.wait()
    segment.post.fill(1)
    segment.post.write(np.ones(1 << 18, "float32"))


END = b"\xff" * 32
"""What ends the messages and the tensors of a test, which then asks for the last before it."""


def arrived(state: PeerState, what: str) -> bytes:
    """Return the bytes that the test has sent here."""
    kept = state.kept
    if what == "written":
        return bytes(kept["inbox"].array)
    last = b""
    while True:
        if what == "message":
            taken = kept["channel"].wait_notification(20).message
        else:
            taken = kept["receiver"].receive(20).tobytes()
        if taken == END:
            return last
        last = taken


def notify(state: PeerState) -> None:
    state.kept["channel"].notify(3)


def close_all(state: PeerState) -> None:
    """Close everything, normally."""
    for name in ("sender", "receiver", "publisher", "client", "server", "models", "device"):
        with contextlib.suppress(fw.DeadlineExceeded):  # what was sent, and nothing takes
            state.kept[name].close()
