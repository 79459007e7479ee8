"""What a process of a random program does with a box: functions of its state."""

from __future__ import annotations

import asyncio
import weakref
import zlib
from typing import Any

import numpy as np

import farwrite as fw
from farwrite import box as boxes
from random_programs.actors import PATIENCE, SHORT, Tally

OPTIONS: dict[str, Any] = {"segment_bytes": 16 << 20}
READS = ("read", "version", "cached", "lease", "view", "read_async", "min_version", "chunk")


def name_of(error: fw.Error) -> str:
    return type(error).__name__


# The server's process.


def serve(state: Any, listen: str | None, fabric: str, folder: str, restore: bool) -> str:
    state.kept["server"] = server = boxes.serve(
        listen=listen, memory="512M", pool="16M", snapshot=folder, restore=restore,
        fabrics=[fabric], **OPTIONS,
    )  # fmt: skip
    return server.endpoint


def snapshot(state: Any) -> None:
    state.kept["server"].snapshot()


def close_server(state: Any) -> None:
    state.kept.pop("server").close(PATIENCE, snapshot=True)


# A client.


def connect(state: Any, endpoint: str, fabric: str, timeout: float = PATIENCE) -> None:
    """Connect anew. Leases stay."""
    close(state)
    state.kept["client"] = boxes.connect(endpoint, timeout=timeout, fabrics=[fabric], **OPTIONS)


def close(state: Any) -> None:
    if (client := state.kept.pop("client", None)) is not None:
        client.close()
    for key in [key for key in state.kept if key[0] in ("segment", "news")]:
        del state.kept[key]


def finish(state: Any) -> None:
    close(state)
    state.kept.clear()


def segment(state: Any, name: str) -> Any:
    key = "segment", name
    if key not in state.kept:
        state.kept[key] = state.kept["client"].attach(name, PATIENCE)
    return state.kept[key]


def create(state: Any, name: str, shape: Any, dtype: str, buffers: int) -> int:
    made = state.kept["client"].create(name, shape, dtype, buffers=buffers)
    state.kept["segment", name] = made
    return int(made.epoch)


def free(state: Any, name: str) -> None:
    segment(state, name).free()


def forget(state: Any, name: str) -> None:
    """Forget what was attached under a name."""
    state.kept.pop(("segment", name), None)
    state.kept.pop(("news", name), None)


def listed(state: Any) -> dict[str, tuple[Any, ...]]:
    return {
        info.name: (info.shape, info.dtype, info.version, info.epoch, info.attached)
        for info in state.kept["client"].list()
    }


def silent(state: Any, name: str) -> int:
    """How many clients that attached a segment are silent."""
    found = [info.silent for info in state.kept["client"].list() if info.name == name]
    return int(found[0])


def posted(state: Any, name: str, change: tuple[Any, ...], target: Any) -> Any:
    """Make a change: its name, and its arguments, of which segments are given by name."""
    method, arguments, options = change
    others = [segment(state, one) if isinstance(one, str) else one for one in arguments]
    return getattr(target, method)(*others, **options)


def change(state: Any, name: str, one: tuple[Any, ...]) -> int:
    return int(posted(state, name, one, segment(state, name)))


def post(state: Any, name: str, changes: list[tuple[Any, ...]], backwards: bool) -> list[int]:
    """Post changes; wait for them in this or the other order. Returns their versions."""
    target = segment(state, name).post
    updates = [posted(state, name, one, target) for one in changes]
    for update in updates[:: -1 if backwards else 1]:
        update.wait(PATIENCE)
    return [update.wait(PATIENCE) for update in updates]


def burst(
    state: Any, name: str, count: int, path: str, at: int, in_flight: int, before: Any
) -> str:
    """Add 1 to all elements, some changes at a time; or write what was before, and one more.

    tally[at] counts what was posted, and tally[at + 1] what was acknowledged.
    """
    tally, target = Tally(path), segment(state, name)
    ones = np.ones(target.shape, target.dtype)
    waiting = []
    try:
        for _ in range(count):
            tally[at] += 1
            if before is None:
                waiting.append(target.post.accumulate(ones))
            else:
                before = before + ones
                waiting.append(target.post.write(before))
            if len(waiting) >= in_flight:
                waiting.pop(0).wait(PATIENCE)
                tally[at + 1] += 1
        for update in waiting:
            update.wait(PATIENCE)
            tally[at + 1] += 1
    except fw.Error as error:
        return name_of(error)
    finally:
        tally.close()
    return ""


def read(state: Any, name: str, way: str, least: int) -> tuple[Any, int | None]:
    """Read all elements. Returns them, and their version if that is known."""
    target = segment(state, name)
    if way == "read":
        return target.read(), None
    if way == "cached":
        cached = target.cached()
        return cached.array, cached.version
    if way == "lease":
        with target.lease(PATIENCE) as lease:
            return np.array(lease.array), lease.version
    if way == "view":
        try:
            return np.array(target.view()), None
        except fw.Unsupported:
            return target.read(), None
    if way == "read_async":
        return asyncio.run(target.read_async(timeout=PATIENCE)), None
    options = {"min_version": least, "timeout": PATIENCE} if way == "min_version" else {}
    if way == "chunk":
        options = {"consistent": "chunk"}
    return target.read_with_version(**options)  # type: ignore[no-any-return]


def facts(state: Any, name: str) -> tuple[int, int, int]:
    target = segment(state, name)
    return target.epoch, target.version, max(target.chunk_versions, default=0)


def keep_lease(state: Any, name: str) -> tuple[Any, int, int]:
    """Keep a lease's array, and return its elements, epoch and version."""
    lease = segment(state, name).lease(PATIENCE)
    array = lease.array
    state.kept.setdefault("leases", []).append((name, array, zlib.crc32(array.tobytes())))
    return np.array(array), lease.epoch, lease.version


def changed_leases(state: Any) -> list[str]:
    """The segments of which an array of a lease is not any more what it was."""
    return [
        name
        for name, array, before in state.kept.get("leases", [])
        if zlib.crc32(array.tobytes()) != before
    ]


def drop_leases(state: Any) -> None:
    state.kept.pop("leases", None)


def await_version(state: Any, name: str, way: str, version: int) -> int:
    """Wait for a version in one of several ways; returns what came."""
    target = segment(state, name)
    if way == "wait":
        return int(target.wait(version, PATIENCE))
    if way == "wait_async":
        return int(asyncio.run(target.wait_async(version, PATIENCE)))
    if way == "updates":
        return int(next(iter(target.updates(version - 1))))
    return int(target.read_with_version(min_version=version, timeout=PATIENCE)[1])


def watch(state: Any, name: str) -> None:
    """Note the versions that a callback gets, in which no call waits."""
    news: list[Any] = []
    client = weakref.proxy(state.kept["client"])

    def note(one: Any) -> None:
        try:
            client.list()
            news.append("a call in a callback was answered")
        except fw.FailedPrecondition:
            news.append(one)

    state.kept["news", name] = news
    segment(state, name).on_update(note)


def news_of(state: Any, name: str) -> list[Any]:
    return [
        type(one).__name__ if isinstance(one, Exception) else one
        for one in state.kept["news", name]
    ]


def try_all(state: Any, name: str | None) -> dict[str, str]:
    """What comes of calls that need the server, by name."""
    client = state.kept["client"]
    calls: dict[str, Any] = {"list": client.list}
    calls["attach"] = lambda: client.attach("none", SHORT)
    if name is not None:
        target = state.kept.get(("segment", name))
        if target is not None:
            calls |= {
                "fill": lambda: target.fill(1),
                "read": target.read,
                "lease": lambda: target.lease(SHORT),
                "wait": lambda: target.wait(1, SHORT),
                "version": lambda: target.version,
                "post": lambda: target.post.fill(1).wait(SHORT),
            }
    outcomes = {}
    for called, call in calls.items():
        try:
            call()
            outcomes[called] = ""
        except fw.Error as error:
            outcomes[called] = name_of(error)
    return outcomes


def refused(state: Any, name: str) -> list[str]:
    """What comes of changes that do not fit."""
    target = segment(state, name)
    wrong = [
        lambda: target.write(np.zeros(target.size + 1, target.dtype)),
        lambda: target.write(np.zeros(target.shape, "uint16")),
        lambda: target.fill(1, start=target.size + 1),
        lambda: target.accumulate(np.ones(2, target.dtype), start=target.size),
        lambda: state.kept["client"].create(name, 1, "float32"),
    ]
    outcomes = []
    for call in wrong:
        try:
            call()
            outcomes.append("")
        except fw.Error as error:
            outcomes.append(name_of(error))
    return outcomes


def given_up(state: Any, name: str, one: tuple[Any, ...]) -> Any:
    """Post a change, and give the wait for it up. Keeps the update."""
    update = posted(state, name, one, segment(state, name).post)
    state.kept["given up", name] = update
    try:
        return update.wait(SHORT)
    except fw.DeadlineExceeded:
        return None


def taken_up(state: Any, name: str) -> int:
    return int(state.kept.pop(("given up", name)).wait(PATIENCE))
