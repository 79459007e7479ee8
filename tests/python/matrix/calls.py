"""The table of calls: every public entry of a class that holds a handle, and what comes of it.

A row says only in what it differs from its kind: see `kinds.py`.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

import numpy as np

from matrix.kinds import (
    ALIAS,
    CLOSED,
    ENDED,
    ITERATION,
    LATE,
    LEFT,
    LOOK,
    LOST,
    NO_ANSWER,
    ONE_SIDED,
    SHORT,
    STILL_READ,
    TAKEN,
    UNDER_WAY,
    UNTOLD,
    VIEW,
    Call,
    Row,
    count,
    ending,
    fact,
    own,
    peer,
)

ONES = np.ones(8, "float32")
MODEL = {"w": ONES}
NESTED = {"a/b": ONES, "a": {"b": ONES}}
"""Two tensors that one path would name."""
NEVER = 1 << 40
"""A version that nothing gets."""


WORLD: dict[str, Any] = {}
"""An object of each class, and what the calls need besides; `world.py` makes them."""

# Classes of the packages' __all__ whose objects hold no handle. Errors, enumerations, dataclasses
# and named tuples are known by what they are.
WITHOUT_HANDLE = {
    "Changes",  # the base of Segment and Posted
    "CudaArray",  # needs a GPU: no call works in a child, because CUDA does not
}

CONTEXT = {"__enter__": fact(), "__exit__": ending(lambda o: o.__exit__(None, None, None))}
CHANGES = {
    "write": peer(lambda o: o.write(ONES)),
    "accumulate": peer(lambda o: o.accumulate(ONES)),
    "axpy": peer(lambda o: o.axpy(1, ONES, WORLD["Segment"])),
    "scale": peer(lambda o: o.scale(2)),
    "fill": peer(lambda o: o.fill(2)),
    "copy_from": peer(lambda o: o.copy_from(WORLD["Segment"])),
    "swap": peer(lambda o: o.swap(WORLD["second"])),
    "signal": peer(),
}
POSTED = {
    "write": peer(lambda o: o.write(ONES).wait(SHORT)),
    "accumulate": peer(lambda o: o.accumulate(ONES).wait(SHORT)),
    "axpy": peer(lambda o: o.axpy(1, ONES, WORLD["Segment"]).wait(SHORT)),
    "scale": peer(lambda o: o.scale(2).wait(SHORT)),
    "fill": peer(lambda o: o.fill(2).wait(SHORT)),
    "copy_from": peer(lambda o: o.copy_from(WORLD["Segment"]).wait(SHORT)),
    "swap": peer(lambda o: o.swap(WORLD["second"]).wait(SHORT)),
    "signal": peer(lambda o: o.signal().wait(SHORT)),
}


def run(awaitable: Any) -> object:
    """Await something in the world's event loop; in a forked child, in one of its own."""

    async def waits() -> object:
        return await awaitable

    if os.getpid() != WORLD["process"]:
        return asyncio.run(waits())
    return asyncio.run_coroutine_threadsafe(waits(), WORLD["loop"]).result()


def refused_by_numpy(handle: Any) -> None:
    """Check that NumPy refuses the handle, of which it would make an array of one object."""
    try:
        np.asarray(handle)
    except TypeError:
        return
    raise AssertionError(f"np.asarray took {handle!r}")


def newer() -> tuple[int, int]:
    """What no model is newer than."""
    return WORLD["Model"].epoch, NEVER


def publish_nested(server: Any) -> None:
    """Publish from the server's own process."""
    with server.publisher("other", NESTED, takeover=True) as publisher:
        publisher.publish(NESTED)
        publisher.free()


def allocate(size: int) -> Any:
    """Allocate as a `RegisteredArray` does."""
    return WORLD["Device"]._native.allocate(size, "host")


ROWS: dict[str, dict[str, Row]] = {
    "Device": {
        **CONTEXT,
        "endpoint": fact(),
        "uuid": fact(),
        "epoch": fact(),
        "connect": peer(
            lambda o: o.connect(WORLD["peer"], max(SHORT, 1.0)),  # a handshake, on a busy machine
            killed=NO_ANSWER,
            closed=NO_ANSWER,
            restarted="returns",
        ),
        "accept": own(lambda o: o.accept(SHORT), none=LATE, killed=LATE, stopped=LATE, closed=LATE),
        "allocate": own(lambda o: o.allocate(8)),
        "contains": count(lambda o: o.contains(ONES)),
        "register": own(lambda o: o.register(bytearray(8))),
        "publish": own(lambda o: o.publish("other", WORLD["RegisteredArray"])),
        "unpublish": own(lambda o: (o.publish("mine", o.allocate(8)), o.unpublish("mine"))),
        "stats": count(),
        "metrics": count(),
        "serve_metrics": own(lambda o: o.serve_metrics()),
        "close": ending(),
    },
    "Channel": {
        **CONTEXT,
        "allocate": peer(lambda o: o.allocate(8), stopped="returns"),
        "publish": peer(lambda o: o.publish("other", WORLD["RegisteredArray"]), stopped="returns"),
        "lookup": peer(lambda o: o.lookup("outbox", SHORT)),
        "lookup_bytes": peer(lambda o: o.lookup_bytes("outbox", SHORT)),
        "open": peer(lambda o: o.open(WORLD["RemoteArray"].descriptor, 8, timeout=SHORT)),
        "write": peer(lambda o: o.write(bytes(8), WORLD["Inbox"]).wait(SHORT), stopped="returns"),
        "read": peer(
            lambda o: o.read(WORLD["RemoteArray"], bytearray(8)).wait(SHORT),
            stopped=ONE_SIDED,
            closed=STILL_READ,
        ),
        "flush": peer(lambda o: o.flush().wait(SHORT), stopped=ONE_SIDED),
        "notify": peer(lambda o: o.notify(1).wait(SHORT), stopped="returns"),
        "send": peer(lambda o: o.send(bytes(8)).wait(SHORT), stopped="returns"),
        "max_message_bytes": fact(),
        "wait_notification": peer(lambda o: o.wait_notification(SHORT), none=LATE),
        "notification": peer(lambda o: run(o.notification(SHORT)), none=LATE),
        "try_notification": peer(stopped="returns"),
        "next_notification": peer(
            lambda o: o.next_notification(SHORT),
            none=LATE,
            closed="returns",
            shut="returns",
            parent="returns",
        ),
        "notifications": fact(),
        "on_notification": own(lambda o: o.on_notification(None)),
        "peer": fact(),
        "peer_state": fact(),
        "stats": count(),
        "closed": fact(),
        "as_capsule": count(),
        "native": fact(),
        "native_device": fact(),
        "close": ending(),
    },
    "RegisteredArray": {
        "allocate": own(lambda o: o.allocate(allocate, 8, "uint8")),
        "array": fact(lambda o: o.array.sum()),
        "shape": fact(),
        "dtype": fact(),
        "nbytes": fact(),
        "access": fact(),
        "descriptor": fact(),
        "publish_with": own(lambda o: o.publish_with(WORLD["Device"]._native.publish, "more")),
        "close": ending(),
        "__array__": fact(np.asarray),
        "__dlpack__": fact(np.from_dlpack),
        "__dlpack_device__": fact(),
        "__len__": fact(),
    },
    "RemoteArray": {
        "name": fact(),
        "shape": fact(),
        "dtype": fact(),
        "size": fact(),
        "nbytes": fact(),
        "access": fact(),
        "descriptor": fact(),
        "read": peer(lambda o: o.read(timeout=SHORT), stopped=ONE_SIDED, closed=STILL_READ),
        "alias": own(**ALIAS),
        "__array__": fact(refused_by_numpy),
        "__len__": fact(),
    },
    "Completion": {
        "done": fact(),
        "settled": fact(),
        "wait": fact(),  # it was over before; Update has one that a child could wait for
        "cancel": fact(),
        "__await__": fact(run),
    },
    "MemoryRegistration": {
        "nbytes": fact(),
        "has_effect": fact(),
        "release": fact(),
        "__enter__": fact(),
        "__exit__": fact(lambda o: o.__exit__(None, None, None)),
    },
    "Notifications": {
        "__iter__": peer(lambda o: next(iter(o)), **ITERATION),
        "__aiter__": fact(aiter),
        "__anext__": peer(lambda o: run(anext(o)), **ITERATION),
    },
    "TensorReceiver": {
        **CONTEXT,
        "name": fact(),
        "kind": fact(),
        "closed": fact(),
        "receive": peer(lambda o: o.receive(SHORT), none=LATE, closed="EndOfStream"),
        "receive_async": peer(
            lambda o: run(o.receive_async(SHORT)), none=LATE, closed="EndOfStream"
        ),
        "try_receive": peer(stopped="returns", closed="EndOfStream"),
        "reset": own(parent="returns"),
        "__iter__": peer(lambda o: next(iter(o)), none="waits", stopped="waits", closed="ends"),
        "__aiter__": fact(),
        "__anext__": peer(lambda o: run(anext(o)), none="waits", stopped="waits", closed="ends"),
        "stats": count(),
        "close": ending(),
    },
    "TensorSender": {
        **CONTEXT,
        "name": fact(),
        "kind": fact(),
        "dtype": fact(),
        "shape": fact(),
        "send": peer(lambda o: o.send(ONES, SHORT).wait(SHORT), stopped="returns"),
        "stats": count(),
        "__aenter__": fact(lambda o: run(o.__aenter__())),
        "__aexit__": ending(lambda o: run(o.__aexit__(None, None, None))),
        "abandon": ending(),
        # What was sent and not taken is said again.
        "close": ending(lambda o: o.close(SHORT), shut=("returns", "Cancelled")),
    },
    "Server": {
        **CONTEXT,
        "endpoint": fact(),
        # The server's own process is its peer; a forked child connects to its parent's.
        "connect": peer(
            lambda o: o.connect(timeout=SHORT).close(),
            **dict.fromkeys(("killed", "stopped", "closed", "forked"), "returns"),
        ),
        "publisher": own(publish_nested, threads=TAKEN),
        "snapshot": own(),
        "stats": count(),
        "metrics": count(),
        "serve_metrics": own(lambda o: o.serve_metrics()),
        "close": ending(),
    },
    "Client": {
        **CONTEXT,
        "create": peer(lambda o: o.create("other", 8, exclusive=False)),
        "create_bytes": peer(lambda o: o.create_bytes("bytes", 8, "d" * 10000, exclusive=False)),
        "attach": peer(lambda o: o.attach("w", SHORT)),
        "event": peer(lambda o: o.event("news")),
        "list": peer(),
        "array": own(lambda o: o.array(8), parent=("returns", *CLOSED)),
        "publisher": peer(lambda o: o.publisher("models", MODEL), threads=TAKEN),
        "subscribe": peer(lambda o: o.subscribe("mine", SHORT)),
        "server": fact(),
        "stats": count(),
        "close": ending(),
    },
    "Segment": {
        **CHANGES,
        "__array__": fact(refused_by_numpy),
        "name": fact(),
        "key": fact(),
        "shape": fact(),
        "dtype": fact(),
        "size": fact(),
        "itemsize": fact(),
        "nbytes": fact(),
        "description": fact(),
        "epoch": peer(stopped=ONE_SIDED),
        "version": peer(stopped=ONE_SIDED),
        "chunk_versions": peer(stopped=ONE_SIDED),
        "layout": fact(),
        "place": fact(),
        "native": fact(),
        "read": peer(stopped=ONE_SIDED),
        "read_with_version": peer(stopped=ONE_SIDED),
        "lease": peer(lambda o: o.lease(SHORT)),
        "view": peer(**VIEW),
        "cached": peer(stopped=ONE_SIDED),
        "wait": peer(lambda o: o.wait(NEVER, SHORT), none=LATE),
        "wait_async": peer(lambda o: run(o.wait_async(NEVER, SHORT)), none=LATE),
        "read_async": peer(lambda o: run(o.read_async()), stopped=ONE_SIDED),
        "updates": peer(stopped=ONE_SIDED),
        "on_update": peer(lambda o: o.on_update(str), stopped=ONE_SIDED),
        "post": fact(),
        "detach": ending(),
        "free": peer(),
        "offset_of": fact(lambda o: o.offset_of),
        "range_of": fact(lambda o: o.range_of("read", 0, 1)),
        "__len__": fact(),
    },
    "Posted": POSTED,
    "Update": {
        "done": fact(),
        "wait": count(lambda o: o.wait(SHORT)),
        "settled": fact(),
        "__await__": count(run),
    },
    "Updates": {
        "__iter__": peer(lambda o: next(iter(o)), **ITERATION),
        "__aiter__": fact(aiter),
        "__anext__": peer(lambda o: run(anext(o)), **ITERATION),
    },
    "Watch": {
        "closed": fact(),
        "close": fact(),
        "__enter__": fact(),
        "__exit__": fact(lambda o: o.__exit__(None, None, None)),
    },
    "Lease": {
        "array": fact(lambda o: o.array.sum(), shut=ENDED),
        "data": fact(lambda o: o.data.sum(), shut=ENDED),
        "ended": fact(),
        "private": fact(lambda o: o.private().sum(), shut=ENDED),
        "epoch": fact(),
        "version": fact(),
        "close": fact(),
        "__array__": fact(lambda o: np.asarray(o).sum(), shut=ENDED),
        "__enter__": fact(),
        "__exit__": fact(lambda o: o.__exit__(None, None, None)),
    },
    "Cached": {
        "__array__": fact(np.asarray),
        "array": fact(),
        "version": fact(),
        "stale": peer(stopped=ONE_SIDED),
        "refresh": peer(stopped=ONE_SIDED),
    },
    "Event": {
        "name": fact(),
        "epoch": peer(stopped=ONE_SIDED),
        "count": peer(stopped=ONE_SIDED),
        "signal": peer(),
        "wait": peer(lambda o: o.wait(NEVER, SHORT), none=LATE),
        "wait_async": peer(lambda o: run(o.wait_async(NEVER, SHORT)), none=LATE),
        "counts": peer(stopped=ONE_SIDED),
        "on_signal": peer(lambda o: o.on_signal(str), stopped=ONE_SIDED),
        "free": peer(),
    },
    "Publisher": {
        "__enter__": fact(),
        "__exit__": fact(lambda o: o.__exit__(None, None, None)),  # the parent keeps the name
        "name": fact(),
        "epoch": peer(stopped=ONE_SIDED),
        "version": peer(stopped=ONE_SIDED),
        "nbytes": fact(),
        "publish": peer(lambda o: o.publish(MODEL)),
        "free": peer(),
        "close": fact(),
    },
    "Subscriber": {
        **CONTEXT,
        "name": fact(),
        "version": peer(stopped=ONE_SIDED),
        "publisher": peer(),
        "latest": peer(lambda o: o.latest(timeout=SHORT)),
        "latest_async": peer(lambda o: run(o.latest_async(timeout=SHORT))),
        "wait": peer(lambda o: o.wait(newer(), SHORT), none=LATE),
        "wait_async": peer(lambda o: run(o.wait_async(newer(), SHORT)), none=LATE),
        "on_version": peer(lambda o: o.on_version(str), stopped=ONE_SIDED),
        "__iter__": peer(lambda o: next(iter(o)), **ITERATION),
        "__aiter__": peer(lambda o: run(anext(aiter(o))), **ITERATION),
        "close": ending(),
    },
    "Model": {
        "epoch": fact(),
        "version": fact(),
        "step": fact(),
        "tree": fact(lambda o: o.tree["w"].sum(), shut=ENDED),
        "keys": fact(shut=ENDED),
        "values": fact(shut=ENDED),
        "items": fact(shut=ENDED),
        "copy": fact(shut=ENDED),
        "torch": fact(lambda o: o.torch),
        "close": fact(),
        "__getitem__": fact(lambda o: o["w"].sum(), shut=ENDED),
        "__iter__": fact(list, shut=ENDED),
        "__len__": fact(),
        "__contains__": fact(lambda o: "w" in o, shut=ENDED),
        "__enter__": fact(),
        "__exit__": fact(lambda o: o.__exit__(None, None, None)),
    },
    "SEASGD": {
        **CONTEXT,
        "due": fact(),
        "step": peer(lambda o: o.step([ONES.copy()]), stopped=LOOK),
        "read": peer(lambda o: o.read([ONES.copy()]), stopped=LOOK),
        "flush": fact(**UNDER_WAY),
        "close": ending(lambda o: o.close(SHORT), **LOST),
    },
    "AsyncSGD": {
        **CONTEXT,
        "__exit__": ending(lambda o: o.__exit__(None, None, None), **UNTOLD),
        "steps": fact(),
        "step": peer(lambda o: o.step([ONES], [ONES.copy()])),
        "close": ending(lambda o: o.close(SHORT), **UNTOLD),
    },
    "BoxGroup": {
        **CONTEXT,
        "rank": fact(),
        "size": fact(),
        "all_reduce": peer(lambda o: o.all_reduce([ONES.copy()]), **LEFT),
        "agree": peer(lambda o: o.agree(True), **LEFT),
        "broadcast": peer(lambda o: o.broadcast([ONES.copy()]), **LEFT),
        "close": ending(),
    },
    "HybridSEASGD": {
        **CONTEXT,
        "step": peer(lambda o: o.step([ONES.copy()]), **LEFT),
        "flush": fact(**UNDER_WAY),
        "close": ending(lambda o: o.close(SHORT), **LOST),
    },
    "Termination": {
        **CONTEXT,
        "advance": peer(lambda o: o.advance(0)),
        "stopped": peer(stopped=LOOK),
        "counts": peer(stopped=LOOK),
        "close": ending(),
    },
}

# What each class has from `object`, what only types use, and how objects are shown, which every
# class is tried with.
EVERYWHERE: dict[str, Call] = {"__repr__": repr, "__str__": str, "__hash__": hash}
