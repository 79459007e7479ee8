"""Every public entry of every class that holds a handle, called in a forked child.

A program: prints a line for each entry that did not end as its row says, and "parent fine" when the
parent has done its work again. `test_fork_entries.py` runs it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import os
import signal
import sys
import threading
import time
import traceback
from typing import Any

import farwrite as fw
from farwrite import box as boxes
from farwrite.box import training
from fork_rows import (
    EVERYWHERE,
    FINE,
    FORKED,
    HUNG,
    MODEL,
    NAMES,
    ONES,
    ROWS,
    WITHOUT_HANDLE,
    WORLD,
    Call,
    fine,
)


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
    WORLD.update(the_world())
    WORLD["_far"].publish("inbox", WORLD["_far"].allocate(8))
    WORLD["Inbox"] = WORLD["Channel"].lookup("inbox")
    for line in check_table() or [*run_rows(), *end_as_a_program_does()]:
        print(line)
    use_again()
    print("parent fine")
