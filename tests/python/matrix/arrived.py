"""The bytes that a call has moved, which must be those that NumPy sees in its argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from matrix import far_side
from matrix.calls import WORLD
from processes import PeerProcess

Look = Callable[[PeerProcess, Any], bytes]


def _segment(peer: PeerProcess, value: Any) -> bytes:
    WORLD["Client"].list()  # answered when earlier changes of this client are applied
    return bytes(WORLD["Segment"].read())


def _message(peer: PeerProcess, value: Any) -> bytes:
    WORLD["Channel"].send(far_side.END).wait(20)
    return peer.run(far_side.arrived, "message")


def _tensor(peer: PeerProcess, value: Any) -> bytes:
    WORLD["TensorSender"].send(np.frombuffer(far_side.END, "float32")).wait(20)
    return peer.run(far_side.arrived, "tensor")


def _model(peer: PeerProcess, value: Any) -> bytes:
    with WORLD["Client"].subscribe("mine").latest(copy=True) as model:
        return bytes(model["w"])


def _inbox(peer: PeerProcess, value: Any) -> bytes:
    WORLD["Channel"].flush().wait(20)
    return peer.run(far_side.arrived, "written")


def _outbox(peer: PeerProcess, value: Any) -> bytes:
    return bytes(range(8))


ARRIVED: dict[str, Look] = {
    "Channel.write.source": _inbox,
    "Channel.read.out": _outbox,
    "RemoteArray.read.out": _outbox,
    "Channel.send.message": _message,
    "TensorSender.send.array": _tensor,
    "Segment.write.source": _segment,
    "Posted.write.source": _segment,
    "Segment.accumulate.delta": _segment,
    "Posted.accumulate.delta": _segment,
    "Segment.read.out": _segment,
    "Segment.read_with_version.out": _segment,
    "Segment.read_async.out": _segment,
    "Publisher.publish.model": _model,
}
"""By the name of a parameter: what there is once the call has returned."""


def bytes_of(value: Any) -> bytes:
    """The bytes of an argument, as NumPy sees them."""
    if isinstance(value, dict):
        value = value["w"]
    return np.asarray(value if isinstance(value, np.ndarray) else memoryview(value)).tobytes()
