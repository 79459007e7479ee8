"""What either side of a channel does in a random program: functions of its state.

An inbox has cells, each a block of elements that are written together and are equal then. A tag
says which cell was written with it, if one was.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
from typing import Any

import numpy as np

import farwrite as fw
from random_programs.actors import PATIENCE, SHORT, Tally

CELLS = 8
NO_CELL = 15
BLOCK = 700
WAYS = ("wait_notification", "notification", "try_notification", "next_notification", "iterate")

Taken = tuple[int, int, bytes, list[int]]
"""Tag, lane and message of a notification, and what its cell held then."""


def open_device(state: Any, listen: str | None, options: dict[str, Any]) -> tuple[str, int]:
    state.kept["device"] = device = fw.Device(listen=listen, **options)
    return device.endpoint, device.epoch


def accept(state: Any) -> None:
    state.kept["channel"] = state.kept["device"].accept(PATIENCE)


def open_inbox(state: Any) -> bytes:
    """Allocate what the peer writes. Returns its descriptor."""
    channel = state.kept["channel"]
    inbox = channel.allocate((CELLS, BLOCK), "int64")
    inbox.array[...] = 0
    state.kept["inbox"] = channel.publish("inbox", inbox)
    state.kept["sources"] = [np.empty(BLOCK, "int64") for _ in range(CELLS)]
    return bytes(inbox.descriptor)


def find_inbox(state: Any) -> None:
    state.kept["remote"] = state.kept["channel"].lookup("inbox", PATIENCE)


def forget(state: Any) -> None:
    """Forget the channel, which is over. Aliases stay."""
    for name in ("channel", "inbox", "remote", "sources", "handled"):
        state.kept.pop(name, None)


def close_device(state: Any) -> None:
    forget(state)
    for key in [key for key in state.kept if key[0] == "out"]:
        del state.kept[key]
    state.kept.pop("device").close()


def finish(state: Any) -> None:
    state.kept.pop("aliases", None)
    if "device" in state.kept:
        close_device(state)
    state.kept.clear()


def named(call: Any) -> str:
    """Call, and return "" or the name of the error."""
    try:
        call()
    except fw.Error as error:
        return type(error).__name__
    return ""


def write(state: Any, cells: list[int], values: list[int], tag: int | None, lane: int) -> str:
    """Write cells; with a tag only one. Overwrite the sources once that is allowed."""
    channel, remote = state.kept["channel"], state.kept["remote"]
    sources = [np.full(BLOCK, value, "int64") for value in values]

    def write_all() -> None:
        writes = [
            channel.write(source, remote, cell * BLOCK, notify=tag, lane=lane)
            for cell, source in zip(cells, sources, strict=True)
        ]
        for one in writes:
            one.wait(PATIENCE)

    ended = named(write_all)
    if not ended:
        for source in sources:
            source[...] = -1
    return ended


def notify(state: Any, tag: int, message: bytes | None, lane: int) -> str:
    channel = state.kept["channel"]
    if message is None:
        return named(lambda: channel.notify(tag, lane=lane).wait(PATIENCE))
    return named(lambda: channel.send(message, tag, lane=lane).wait(PATIENCE))


def flush(state: Any, limit: float = PATIENCE) -> str:
    return named(lambda: state.kept["channel"].flush().wait(limit))


def cells(state: Any) -> list[list[int]]:
    """The values that each cell of the inbox holds."""
    return [np.unique(cell).tolist() for cell in state.kept["inbox"].array]


def _described(state: Any, notification: Any) -> Taken:
    tag, lane, message = notification
    cell = tag % 16
    held = [] if cell == NO_CELL else np.unique(state.kept["inbox"].array[cell]).tolist()
    return tag, lane, message, held


async def _after_giving_up(channel: fw.Channel, limit: float) -> Any:
    """Take a notification, for which a task that was cancelled has waited before."""
    waits = asyncio.ensure_future(channel.notification(limit))
    await asyncio.sleep(0)
    waits.cancel()  # in vain, if it has taken one
    with contextlib.suppress(asyncio.CancelledError):
        return await waits
    return await channel.notification(limit)


def take(state: Any, way: str, count: int, limit: float) -> tuple[list[Taken], str]:
    """Take notifications. Returns what ended it besides."""
    channel = state.kept["channel"]
    taken: list[Taken] = []
    give_up = time.monotonic() + limit
    try:
        if way == "iterate" and count:
            for one in channel.notifications():
                taken.append(_described(state, one))
                if len(taken) == count:
                    return taken, ""
            return taken, "ends"
        while len(taken) < count:
            if way == "notification":
                one = asyncio.run(_after_giving_up(channel, limit))
            elif way == "try_notification":
                while (one := channel.try_notification()) is None and time.monotonic() < give_up:
                    time.sleep(0.001)
                if one is None:
                    return taken, "DeadlineExceeded"
            elif way == "next_notification":
                if (one := channel.next_notification(limit)) is None:
                    return taken, "ends"
            else:
                one = channel.wait_notification(limit)
            taken.append(_described(state, one))
    except fw.Error as error:
        return taken, type(error).__name__
    return taken, ""


def handle(state: Any) -> None:
    """Let a handler collect the notifications."""
    handled: list[Taken] = []
    state.kept["handled"] = handled
    state.kept["channel"].on_notification(lambda one: handled.append(_described(state, one)))


def handled(state: Any, stop: bool) -> list[Taken]:
    """What the handler has collected; then it may end."""
    if stop:
        state.kept["channel"].on_notification(None)
    return list(state.kept["handled"])


def burst(state: Any, count: int, first: int, path: str, lane: int) -> str:
    """Write cells with tags, one after the other. tally[0] counts what was posted."""
    tally, channel, remote = Tally(path), state.kept["channel"], state.kept["remote"]

    def write_all() -> None:
        for value in range(first, first + count):
            cell = value % CELLS
            tally[0] = value
            source = np.full(BLOCK, value, "int64")
            channel.write(source, remote, cell * BLOCK, notify=value * 16 + cell, lane=lane).wait(
                PATIENCE
            )
            tally[1] = value

    ended = named(write_all)
    tally.close()
    return ended


def publish(state: Any, name: str, value: int) -> bytes:
    array = state.kept["device"].allocate(BLOCK, "int64")
    array.array[...] = value
    state.kept["out", name] = state.kept["device"].publish(name, array)
    return bytes(array.descriptor)


def set_out(state: Any, name: str, value: int) -> None:
    state.kept["out", name].array[...] = value


def unpublish(state: Any, name: str) -> None:
    """Unpublish an array, let go of it, and use as much memory for something else."""
    state.kept["device"].unpublish(name)
    del state.kept["out", name]
    gc.collect()
    others = [state.kept["device"].allocate(BLOCK, "int64") for _ in range(4)]
    for other in others:
        other.array[...] = -2


def lookup(state: Any, name: str, limit: float, out: bool) -> Any:
    """Read what the peer has published. Returns its values, or the name of an error."""
    try:
        remote = state.kept["channel"].lookup(name, limit)
        if out:
            into = np.empty(BLOCK, "int64")
            state.kept["channel"].read(remote, into).wait(PATIENCE)
        else:
            into = remote.read(timeout=PATIENCE)
    except fw.Error as error:
        return type(error).__name__
    return np.unique(into).tolist()


def hold(state: Any, name: str) -> None:
    """Look an array up, to read it later."""
    state.kept["held"] = state.kept["channel"].lookup(name, PATIENCE)


def read_held(state: Any, limit: float) -> Any:
    into = np.full(BLOCK, -1, "int64")
    try:
        state.kept["channel"].read(state.kept["held"], into).wait(limit)
    except fw.Error as error:
        return type(error).__name__
    return np.unique(into).tolist()


def alias(state: Any, name: str, number: int) -> str:
    def keep() -> None:
        remote = state.kept["channel"].lookup(name, PATIENCE)
        state.kept.setdefault("aliases", {})[number] = remote.alias()

    return named(keep)


def aliases(state: Any) -> dict[int, list[int]]:
    """The values that each alias shows."""
    kept = state.kept.get("aliases", {})
    return {number: np.unique(array).tolist() for number, array in kept.items()}


def drop_aliases(state: Any) -> None:
    state.kept.pop("aliases", None)


def open_descriptor(state: Any, descriptor: bytes) -> str:
    return named(lambda: state.kept["channel"].open(descriptor, timeout=PATIENCE))


def close_channel(state: Any) -> int:
    """Close the channel. Returns how many notifications had to wait for room at the peer."""
    channel = state.kept["channel"]
    backlogged = channel.stats().backlogged
    channel.close(PATIENCE)
    return int(backlogged)


def peer_state(state: Any) -> str:
    return str(state.kept["channel"].peer_state.value)


def try_all(state: Any) -> dict[str, str]:
    """What comes of every call that needs the peer, by name."""
    channel, remote = state.kept["channel"], state.kept["remote"]
    calls = {
        "write": lambda: channel.write(np.zeros(BLOCK, "int64"), remote).wait(SHORT),
        "flush": lambda: channel.flush().wait(SHORT),
        "notify": lambda: channel.notify(1).wait(SHORT),
        "send": lambda: channel.send(b"x").wait(SHORT),
        "lookup": lambda: channel.lookup("inbox", SHORT),
        "allocate": lambda: channel.allocate(8),
    }
    return {name: named(call) for name, call in calls.items()}
