"""What each public entry of a class that holds a handle does in a forked child."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np

FORKED, FINE, HUNG = 10, 11, 12
NAMES = {FORKED: "raised Forked", FINE: "returned", HUNG: "hung"}

Call = Callable[[Any], object]


class Row:
    """What a call does in a forked child."""

    def __init__(self, call: Call | None, outcome: int) -> None:
        self.call, self.outcome = call, outcome


def refused(call: Call | None = None) -> Row:
    """A row of an entry that raises Forked; without a call, of a property or of no parameters."""
    return Row(call, FORKED)


def fine(call: Call | None = None) -> Row:
    """A row of an entry that works: facts, and memory that a child may read."""
    return Row(call, FINE)


ONES = np.ones(8, "float32")
MODEL = {"w": ONES}


WORLD: dict[str, Any] = {}
"""An object of each class, and what the calls need besides; `fork_entries.py` makes them."""

# Classes of the packages' __all__ whose objects hold no handle. Errors, enumerations, dataclasses
# and named tuples are known by what they are.
WITHOUT_HANDLE = {
    "Changes",  # the base of Segment and Posted
    "CudaArray",  # needs a GPU: no call works in a child, because CUDA does not
}

CONTEXT = {"__enter__": fine(), "__exit__": refused(lambda o: o.__exit__(None, None, None))}
CHANGES = {
    "write": refused(lambda o: o.write(ONES)),
    "accumulate": refused(lambda o: o.accumulate(ONES)),
    "axpy": refused(lambda o: o.axpy(1, ONES, WORLD["Segment"])),
    "scale": refused(lambda o: o.scale(2)),
    "fill": refused(lambda o: o.fill(2)),
    "copy_from": refused(lambda o: o.copy_from(WORLD["Segment"])),
    "swap": refused(lambda o: o.swap(WORLD["Cached"]._segment)),
    "signal": refused(),
}


def run(awaitable: Any) -> object:
    """Await something in a loop of this process."""

    async def waits() -> object:
        return await awaitable

    return asyncio.run(waits())


ROWS: dict[str, dict[str, Row]] = {
    "Device": {
        **CONTEXT,
        "endpoint": fine(),
        "uuid": fine(),
        "epoch": fine(),
        "connect": refused(lambda o: o.connect(WORLD["_other"].endpoint, 1)),
        "accept": refused(lambda o: o.accept(1)),
        "allocate": refused(lambda o: o.allocate(8)),
        "contains": refused(lambda o: o.contains(ONES)),
        "register": refused(lambda o: o.register(bytearray(8))),
        "publish": refused(lambda o: o.publish("other", WORLD["RegisteredArray"])),
        "unpublish": refused(lambda o: o.unpublish("array")),
        "stats": refused(),
        "metrics": refused(),
        "serve_metrics": refused(),
        "close": refused(),
    },
    "Channel": {
        **CONTEXT,
        "allocate": refused(lambda o: o.allocate(8)),
        "publish": refused(lambda o: o.publish("other", WORLD["RegisteredArray"])),
        "lookup": refused(lambda o: o.lookup("outbox", 1)),
        "lookup_bytes": refused(lambda o: o.lookup_bytes("outbox", 1)),
        "open": refused(lambda o: o.open(WORLD["RemoteArray"].descriptor, 8)),
        "write": refused(lambda o: o.write(bytes(8), WORLD["RemoteArray"])),
        "read": refused(lambda o: o.read(WORLD["RemoteArray"], bytearray(8))),
        "flush": refused(),
        "notify": refused(lambda o: o.notify(1)),
        "send": refused(lambda o: o.send(bytes(8))),
        "max_message_bytes": fine(),
        "wait_notification": refused(),
        "notification": refused(lambda o: run(o.notification())),
        "try_notification": refused(),
        "next_notification": refused(),
        "notifications": fine(),
        "on_notification": refused(lambda o: o.on_notification(print)),
        "peer": fine(),
        "peer_state": fine(),
        "stats": refused(),
        "closed": fine(),
        "as_capsule": refused(),
        "native": fine(),
        "native_device": fine(),
        "close": refused(),
    },
    "RegisteredArray": {
        "allocate": refused(lambda o: o.allocate(WORLD["Client"]._native.allocate, 8, "uint8")),
        "array": fine(lambda o: o.array.sum()),
        "shape": fine(),
        "dtype": fine(),
        "nbytes": fine(),
        "access": fine(),
        "descriptor": fine(),
        "publish_with": refused(lambda o: o.publish_with(WORLD["Device"]._native.publish, "more")),
        "close": refused(),
        "__array__": fine(np.asarray),
        "__dlpack__": fine(np.from_dlpack),
        "__dlpack_device__": fine(),
        "__len__": fine(),
    },
    "RemoteArray": {
        "name": fine(),
        "shape": fine(),
        "dtype": fine(),
        "size": fine(),
        "nbytes": fine(),
        "access": fine(),
        "descriptor": fine(),
        "native": fine(),
        "read": refused(),
        "alias": refused(),
        "__len__": fine(),
    },
    "Completion": {
        "done": fine(),
        "settled": fine(),
        "wait": fine(),  # it was over before; Update has one that a child could wait for
        "cancel": fine(),
        "__await__": fine(run),
    },
    "MemoryRegistration": {
        "nbytes": fine(),
        "has_effect": fine(),
        "release": fine(),
        "__enter__": fine(),
        "__exit__": fine(lambda o: o.__exit__(None, None, None)),
    },
    "Notifications": {
        "__iter__": refused(lambda o: next(iter(o))),
        "__aiter__": fine(aiter),
        "__anext__": refused(lambda o: run(anext(o))),
    },
    "TensorReceiver": {
        **CONTEXT,
        "name": fine(),
        "kind": fine(),
        "closed": fine(),
        "receive": refused(),
        "receive_async": refused(lambda o: run(o.receive_async())),
        "try_receive": refused(),
        "reset": refused(),
        "__iter__": refused(lambda o: next(iter(o))),
        "__aiter__": fine(),
        "__anext__": refused(lambda o: run(anext(o))),
        "stats": refused(),
        "close": refused(),
    },
    "TensorSender": {
        **CONTEXT,
        "name": fine(),
        "kind": fine(),
        "dtype": fine(),
        "shape": fine(),
        "send": refused(lambda o: o.send(ONES)),
        "stats": refused(),
        "__aenter__": fine(lambda o: run(o.__aenter__())),
        "__aexit__": refused(lambda o: run(o.__aexit__(None, None, None))),
        "abandon": refused(),
        "close": refused(),
    },
    "Server": {
        **CONTEXT,
        "endpoint": fine(),
        "connect": refused(lambda o: WORLD["Client"].list() or o.connect()),
        "publisher": refused(lambda o: o.publisher("other", MODEL)),
        "snapshot": refused(),
        "stats": refused(),
        "metrics": refused(),
        "serve_metrics": refused(),
        "close": refused(),
    },
    "Client": {
        **CONTEXT,
        "create": refused(lambda o: o.create("other", 8)),
        "create_bytes": refused(lambda o: o.create_bytes("other", 8, "d" * 10000)),
        "attach": refused(lambda o: o.attach("w")),
        "event": refused(lambda o: o.event("other")),
        "list": refused(),
        "array": refused(lambda o: o.array(8)),
        "publisher": refused(lambda o: o.publisher("other", MODEL)),
        "subscribe": refused(lambda o: o.subscribe("model")),
        "server": fine(),
        "stats": refused(),
        "close": refused(),
    },
    "Segment": {
        **CHANGES,
        "name": fine(),
        "key": fine(),
        "shape": fine(),
        "dtype": fine(),
        "size": fine(),
        "itemsize": fine(),
        "nbytes": fine(),
        "description": fine(),
        "epoch": refused(),
        "version": refused(),
        "chunk_versions": refused(),
        "layout": fine(),
        "native": fine(),
        "read": refused(),
        "read_with_version": refused(),
        "lease": refused(),
        "view": refused(),
        "cached": refused(),
        "wait": refused(lambda o: o.wait(5)),
        "wait_async": refused(lambda o: run(o.wait_async(5))),
        "read_async": refused(lambda o: run(o.read_async())),
        "updates": refused(),
        "on_update": refused(lambda o: o.on_update(print)),
        "post": fine(),
        "detach": refused(),
        "free": refused(),
        "offset_of": fine(lambda o: o.offset_of),
        "range_of": fine(lambda o: o.range_of("read", 0, 1)),
        "__len__": fine(),
    },
    "Posted": CHANGES,
    "Update": {
        "done": fine(),
        "wait": refused(),
        "settled": fine(),
        "__await__": refused(run),
    },
    "Updates": {
        "__iter__": refused(lambda o: next(iter(o))),
        "__aiter__": fine(aiter),
        "__anext__": refused(lambda o: run(anext(o))),
    },
    "Watch": {
        "closed": fine(),
        "close": fine(),
        "__enter__": fine(),
        "__exit__": fine(lambda o: o.__exit__(None, None, None)),
    },
    "Lease": {
        "array": fine(lambda o: o.array.sum()),
        "data": fine(lambda o: o.data.sum()),
        "private": fine(lambda o: o.private().sum()),
        "epoch": fine(),
        "version": fine(),
        "close": fine(),
        "__enter__": fine(),
        "__exit__": fine(lambda o: o.__exit__(None, None, None)),
    },
    "Cached": {"array": fine(), "version": fine(), "stale": refused(), "refresh": refused()},
    "Event": {
        "name": fine(),
        "epoch": refused(),
        "count": refused(),
        "signal": refused(),
        "wait": refused(),
        "wait_async": refused(lambda o: run(o.wait_async(5))),
        "counts": refused(),
        "on_signal": refused(lambda o: o.on_signal(print)),
        "free": refused(),
    },
    "Publisher": {
        "__enter__": fine(),
        "__exit__": fine(lambda o: o.__exit__(None, None, None)),  # the parent keeps the name
        "name": fine(),
        "epoch": refused(),
        "version": refused(),
        "nbytes": fine(),
        "publish": refused(lambda o: o.publish(MODEL)),
        "free": refused(),
        "close": fine(),
    },
    "Subscriber": {
        **CONTEXT,
        "name": fine(),
        "version": refused(),
        "publisher": refused(),
        "latest": refused(),
        "latest_async": refused(lambda o: run(o.latest_async())),
        "wait": refused(),
        "wait_async": refused(lambda o: run(o.wait_async())),
        "on_version": refused(lambda o: o.on_version(print)),
        "__iter__": refused(lambda o: next(iter(o))),
        "__aiter__": refused(lambda o: run(anext(aiter(o)))),
        "close": refused(),
    },
    "Model": {
        "epoch": fine(),
        "version": fine(),
        "step": fine(),
        "tree": fine(lambda o: o.tree["w"].sum()),
        "keys": fine(),
        "values": fine(),
        "items": fine(),
        "copy": fine(),
        "torch": fine(lambda o: o.torch),
        "close": fine(),
        "__getitem__": fine(lambda o: o["w"].sum()),
        "__iter__": fine(list),
        "__len__": fine(),
        "__contains__": fine(lambda o: "w" in o),
        "__enter__": fine(),
        "__exit__": fine(lambda o: o.__exit__(None, None, None)),
    },
    "SEASGD": {
        **CONTEXT,
        "due": fine(),
        "step": refused(lambda o: o.step([ONES.copy()])),
        "read": refused(lambda o: o.read([ONES.copy()])),
        "flush": fine(),  # nothing is under way
        "close": refused(),
    },
    "AsyncSGD": {
        **CONTEXT,
        "steps": fine(),
        "step": refused(lambda o: o.step([ONES], [ONES.copy()])),
        "close": refused(),
    },
    "BoxGroup": {
        **CONTEXT,
        "rank": fine(),
        "size": fine(),
        "agree": refused(lambda o: o.agree(True)),
        "all_reduce": refused(lambda o: o.all_reduce([ONES.copy()])),
        "broadcast": refused(lambda o: o.broadcast([ONES.copy()])),
        "close": refused(),
    },
    "HybridSEASGD": {
        **CONTEXT,
        "step": refused(lambda o: o.step([ONES.copy()])),
        "flush": fine(),
        "close": refused(),
    },
    "Termination": {
        **CONTEXT,
        "advance": refused(lambda o: o.advance(0)),
        "stopped": refused(),
        "counts": refused(),
        "close": refused(),
    },
}

# What each class has from `object`, what only types use, and how objects are shown, which every
# class is tried with.
EVERYWHERE: dict[str, Call] = {"__repr__": repr, "__str__": str, "__hash__": hash}
