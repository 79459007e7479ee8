"""Every public entry of every class that holds a handle, called in a forked child.

A program: prints a line for each entry that did not end as its row says, and "parent fine" when the
parent has done its work again. `test_fork_entries.py` runs it.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import enum
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

import farwrite as fw
from farwrite import box as boxes
from farwrite.box import training

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


def connected(device: fw.Device, other: fw.Device) -> tuple[fw.Channel, fw.Channel]:
    """A channel between two devices of this process, and its other end."""
    accepted: list[fw.Channel] = []
    thread = threading.Thread(target=lambda: accepted.append(other.accept(20)))
    thread.start()
    near = device.connect(other.endpoint)
    thread.join()
    return near, accepted[0]


def the_world() -> dict[str, Any]:
    """Make an object of every class, all of them in use."""
    device, other = fw.Device(), fw.Device()
    near, far = connected(device, other)
    near_tensors, far_tensors = connected(device, other)
    outbox = other.publish("outbox", other.allocate(8))
    receiver = fw.TensorReceiver(far_tensors, "edge", (8,), "float32")
    server = boxes.serve(memory="64M", pool="4M")
    client = server.connect()
    segment = client.create("w", 8, "float32")
    publisher = server.publisher("model", MODEL)
    publisher.publish(MODEL)
    subscriber = client.subscribe("model")
    seasgd = training.SEASGD(client, "easgd", [ONES.copy()])
    group = training.BoxGroup(client, "group", [ONES.copy()], 0, 1)
    return {
        "Device": device,
        "Channel": near,
        "RegisteredArray": device.publish("array", device.allocate(8)),
        "RemoteArray": near.lookup("outbox"),
        "Completion": near.notify(1),
        "MemoryRegistration": device.register(bytearray(64)),
        "Notifications": near.notifications(),
        "TensorReceiver": receiver,
        "TensorSender": fw.TensorSender(near_tensors, "edge"),
        "Server": server,
        "Client": client,
        "Segment": segment,
        "Posted": segment.post,
        "Update": segment.post.fill(1),
        "Updates": segment.updates(),
        "Watch": segment.on_update(lambda _: None),
        "Lease": segment.lease(),
        "Cached": segment.cached(),
        "Event": client.event("event"),
        "Publisher": publisher,
        "Subscriber": subscriber,
        "Model": subscriber.latest(),
        "SEASGD": seasgd,
        "AsyncSGD": training.AsyncSGD(client, "async", [ONES.copy()], 0.1),
        "BoxGroup": group,
        "HybridSEASGD": training.HybridSEASGD(
            client, "hybrid", [ONES.copy()],
            all_reduce=group.all_reduce, broadcast=group.broadcast, root=True,
        ),
        "Termination": training.Termination(client, "end", 1, 5),
        # Kept from being closed, and for the rows.
        "_far": far,
        "_outbox": outbox,
        "_other": other,
        "_tensors": (near_tensors, far_tensors),
    }  # fmt: skip


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
        "__aiter__": refused(lambda o: run(anext(aiter(o)))),
    },
    "TensorReceiver": {
        **CONTEXT,
        "name": fine(),
        "kind": fine(),
        "closed": fine(),
        "receive": refused(),
        "try_receive": refused(),
        "reset": refused(),
        "__iter__": refused(lambda o: next(iter(o))),
        "__aiter__": refused(lambda o: run(anext(aiter(o)))),
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
        "__aiter__": refused(lambda o: run(anext(aiter(o)))),
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


def entries(kind: type) -> set[str]:
    """The names that a program may use on an object of a class of Farwrite."""
    names = set()
    for base in kind.__mro__:
        if not base.__module__.startswith("farwrite"):
            continue
        for name in vars(base):
            special = name.startswith("__") and name.endswith("__")
            if special:
                public = callable(getattr(base, name)) and name not in MADE_BY_PYTHON
            else:
                public = not name.startswith("_")
            if public:
                names.add(name)
    return names - set(EVERYWHERE)


MADE_BY_PYTHON = {
    "__init__", "__new__", "__init_subclass__", "__class_getitem__", "__subclasshook__",
    "__orig_bases__", "__slots__", "__getstate__", "__reduce__", "__replace__",
}  # fmt: skip


def holds_no_handle(kind: type) -> bool:
    """Whether objects of the class are plain values."""
    plain = (BaseException, tuple, enum.Enum)
    return dataclasses.is_dataclass(kind) or issubclass(kind, plain)


def check_table() -> list[str]:
    """Name the classes and entries without a row, and the rows without an entry."""
    kinds = {
        name: kind
        for package in (fw, boxes, training)
        for name in package.__all__
        if isinstance(kind := getattr(package, name), type)
    }
    wrong = []
    for name, kind in kinds.items():
        if name in WITHOUT_HANDLE or holds_no_handle(kind):
            continue
        if name not in ROWS or not isinstance(WORLD.get(name), kind):
            wrong.append(f"the class {name} has no row or no object")
            continue
        wrong += [f"{name}.{entry} has no row" for entry in sorted(entries(kind) - set(ROWS[name]))]
        wrong += [f"{name}.{entry} does not exist" for entry in set(ROWS[name]) - entries(kind)]
    wrong += [f"the class {name} does not exist" for name in set(ROWS) - set(kinds)]
    return wrong


def called(instance: Any, entry: str, call: Call | None) -> object:
    """Use an entry of `instance` as its row says."""
    if call is not None:
        return call(instance)
    value = getattr(instance, entry)
    return value() if callable(value) else value


def end_of(pid: int) -> int:
    """The exit status of a child, less 256 times its signal; HUNG after a while."""
    give_up = time.monotonic() + 20
    while time.monotonic() < give_up:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
        time.sleep(0.001)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return HUNG


def outcome_of(instance: Any, entry: str, call: Call | None, *, after_another: bool) -> int:
    """Call an entry in a forked child."""
    pid = os.fork()
    if pid != 0:
        return end_of(pid)
    outcome = 1
    try:
        if after_another:
            for other in (WORLD["Client"].list, WORLD["Device"].accept, WORLD["Channel"].flush):
                with contextlib.suppress(fw.Forked):
                    other()
        called(instance, entry, call)
        outcome = FINE
    except fw.Forked:
        outcome = FORKED
    except BaseException:
        traceback.print_exc()
    os._exit(outcome)


def run_rows() -> list[str]:
    """Name every entry that did not end as its row says."""
    wrong = []
    for kind, rows in ROWS.items():
        shown = {name: fine(call) for name, call in EVERYWHERE.items()}
        for entry, row in {**rows, **shown}.items():
            for after_another in (False, True):
                outcome = outcome_of(WORLD[kind], entry, row.call, after_another=after_another)
                if outcome != row.outcome:
                    ended = NAMES.get(outcome, f"ended with {outcome}")
                    when = " after another call" if after_another else ""
                    wrong.append(f"{kind}.{entry}{when}: {ended}, not {NAMES[row.outcome]}")
    return wrong


def end_as_a_program_does() -> list[str]:
    """Drop each object, and all of them, in children that run destructors and exit handlers."""
    wrong = []
    for name in [*ROWS, "everything"]:
        pid = os.fork()
        if pid == 0:
            if name == "everything":
                WORLD.clear()
            else:
                del WORLD[name]
            sys.exit(0)
        outcome = end_of(pid)
        if outcome != 0:
            wrong.append(f"the end of {name}: {outcome}")
    return wrong


def use_again() -> None:
    """What the parent does afterwards, with each object."""
    w = WORLD
    w["Channel"].write(bytes(range(8)), w["Inbox"]).wait(20)
    assert w["Segment"].fill(3) > 0
    assert w["Segment"].read().tolist() == [3] * 8
    w["TensorSender"].send(ONES).wait(20)
    assert w["TensorReceiver"].receive(20).tolist() == ONES.tolist()
    assert w["Publisher"].publish(MODEL) == 2
    assert w["Subscriber"].latest(newer_than=w["Model"], timeout=20)["w"].tolist() == ONES.tolist()
    w["SEASGD"].step([ONES.copy()])
    w["AsyncSGD"].step([ONES], [ONES.copy()])
    w["BoxGroup"].all_reduce([ONES.copy()])
    assert w["Lease"].array.tolist() == [1] * 8
    for name in ("SEASGD", "AsyncSGD", "BoxGroup", "Termination", "Publisher", "Subscriber",
                 "Client", "Server", "TensorSender", "TensorReceiver", "Channel", "_far",
                 "Device", "_other"):  # fmt: skip
        w[name].close()


if __name__ == "__main__":
    WORLD = the_world()
    WORLD["_far"].publish("inbox", WORLD["_far"].allocate(8))
    WORLD["Inbox"] = WORLD["Channel"].lookup("inbox")
    for line in check_table() or [*run_rows(), *end_as_a_program_does()]:
        print(line)
    use_again()
    print("parent fine")
