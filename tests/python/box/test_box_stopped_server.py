"""Each call of the box that waits ends by the limit of its row, when the server is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import re
import signal
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from box_servers import other_process

import farwrite as fw
from farwrite.box.training import SEASGD, AsyncSGD, BoxGroup, Termination, read_weights
from processes import stop, wait_until
from test_borrowed import can_be_resized

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "parameter-box.md"
SHORT, LONG = 2.0, 3600.0
DETECTION = 0.2
OF_ANOTHER_WAIT = {
    "box.connect", "segment.write", "segment.accumulate", "segment.fill", "segment.signal",
    "segment.post.write().wait", "segment.wait_async", "event.signal", "event.wait_async",
    "publisher.publish", "subscriber.latest_async", "SEASGD.step", "SEASGD.flush", "AsyncSGD.step",
    "Termination.advance", "BoxGroup.all_reduce",
}  # fmt: skip
"""Waits for a change, for a connection, and in asyncio."""
HANG = 60.0
"""Seconds after which a call counts as one that waits for ever: a bound, and no measure."""
MODEL = {"w": np.ones(4, "float32")}


def rows() -> dict[str, tuple[str, str]]:
    """The table of the page: for each call what ends its wait, and what it does on one host."""
    text = PAGE.read_text().partition("## How long a call waits")[2].partition("\n## ")[0]
    found = {}
    for line in text.splitlines():
        if line.startswith("| `"):
            calls, limit, here = (cell.strip() for cell in line.strip("|").split("|"))
            found.update({name: (limit, here) for name in re.findall("`([^`]+)`", calls)})
    return found


class Calls:
    """The calls of the table, with what they need.

    `patient` was connected with a long timeout, `hasty` with a short one: a call that ends in time
    on the patient client does so by the timeout of its own.
    """

    def __init__(
        self, patient: fw.box.Client, hasty: fw.box.Client, connect: Callable[[], object]
    ) -> None:
        made = patient.create("w", (4,))
        made.fill(1)
        mine, its = hasty.attach("w"), patient.attach("w")
        mine.read()  # the first read of a buffer asks the server
        cached = its.cached()
        event, waited = hasty.event("event"), patient.event("event")
        publisher = hasty.publisher("model", like=MODEL)
        publisher.publish(MODEL)
        other = hasty.publisher("other", like=MODEL)
        third = hasty.publisher("third", like=MODEL)
        subscriber = patient.subscribe("model")
        arrays = [np.ones(4, "float32")]
        seasgd = SEASGD(patient, "seasgd", arrays, timeout=SHORT)
        flushed = SEASGD(patient, "flushed", arrays, timeout=SHORT)
        read = SEASGD(patient, "read", arrays, timeout=SHORT)
        read.read([np.ones(4, "float32")])
        async_sgd = AsyncSGD(patient, "async", arrays, 0.1, timeout=SHORT)
        group = BoxGroup(hasty, "group", arrays, 0, 1, timeout=SHORT)
        stop = Termination(patient, "stop", 1, target=9, timeout=SHORT)
        stop.advance(0)

        def posted() -> object:
            return its.post.write(np.ones(4, "float32")).wait(SHORT)

        def refreshed() -> object:
            cached._version = -1
            return cached.refresh(SHORT)

        def stepped() -> object:
            seasgd.step(arrays)
            return seasgd.flush()

        def flush() -> object:
            flushed._pending.begin(flushed._segment.post.accumulate(arrays[0]))
            return flushed.flush()

        self.all: dict[str, Callable[[], object]] = {
            "box.connect": connect,
            "client.create": lambda: hasty.create("new", (4,)),
            "client.create_bytes": lambda: hasty.create_bytes("bytes", 4),
            "client.event": lambda: hasty.event("news"),
            "client.attach": lambda: patient.attach("nothing", timeout=SHORT),
            "client.subscribe": lambda: patient.subscribe("nobody", timeout=SHORT),
            "client.list": hasty.list,
            "client.publisher": lambda: hasty.publisher("fourth", like=MODEL),
            "segment.version": lambda: mine.version,
            "segment.epoch": lambda: mine.epoch,
            "segment.chunk_versions": lambda: mine.chunk_versions,
            "segment.read": lambda: its.read(timeout=SHORT),
            "segment.cached": mine.cached,
            "cached.refresh": refreshed,
            "cached.stale": lambda: mine.version,
            "segment.read(min_version=)": lambda: its.read(min_version=99, timeout=SHORT),
            "segment.lease": lambda: its.lease(SHORT),
            "segment.wait": lambda: its.wait(99, SHORT),
            "segment.wait_async": lambda: asyncio.run(its.wait_async(99, SHORT)),
            "segment.write": lambda: mine.write(np.ones(4, "float32")),
            "segment.accumulate": lambda: mine.accumulate(np.ones(4, "float32")),
            "segment.fill": lambda: mine.fill(2),
            "segment.signal": mine.signal,
            "segment.post.write().wait": posted,
            "segment.free": hasty.attach("w").free,
            "event.count": lambda: event.count,
            "event.signal": event.signal,
            "event.wait": lambda: waited.wait(timeout=SHORT),
            "event.wait_async": lambda: asyncio.run(waited.wait_async(timeout=SHORT)),
            "publisher.publish": lambda: publisher.publish(MODEL),
            "publisher.free": other.free,
            "publisher.close": third.close,
            "subscriber.version": lambda: hasty_subscriber.version,
            "subscriber.publisher": lambda: hasty_subscriber.publisher(),
            "subscriber.latest": lambda: subscriber.latest(timeout=SHORT),
            "subscriber.latest_async": lambda: asyncio.run(subscriber.latest_async(timeout=SHORT)),
            "SEASGD.step": stepped,
            "SEASGD.flush": flush,
            "SEASGD.read": lambda: read.read([np.ones(4, "float32")]),
            "AsyncSGD.step": lambda: async_sgd.step(arrays, [np.ones(4, "float32")]),
            "BoxGroup.all_reduce": lambda: group.all_reduce([np.ones(4, "float32")]),
            "Termination.advance": lambda: stop.advance(0),
            "read_weights": lambda: read_weights(patient, "seasgd", arrays, timeout=SHORT),
        }
        hasty_subscriber = hasty.subscribe("model")
        self._closing = [seasgd, flushed, read, async_sgd, group, stop]

    def close(self) -> None:
        """End the objects, once the server goes on."""
        for closing in self._closing:
            with contextlib.suppress(fw.Error):  # a call that was given up left its error to it
                closing.close()


def outcomes(calls: dict[str, Callable[[], object]]) -> dict[str, Any]:
    """Make every call in a thread of its own; return what each raised, or "returned"."""
    found: dict[str, Any] = {}

    def run(name: str, call: Callable[[], object]) -> None:
        try:
            call()
            found[name] = "returned"
        except BaseException as error:
            found[name] = error

    threads = [
        threading.Thread(target=run, args=row, name=row[0], daemon=True) for row in calls.items()
    ]
    for thread in threads:
        thread.start()
    limit = threading.Event()
    timer = threading.Timer(HANG, limit.set)
    timer.start()
    try:
        for thread in threads:
            while thread.is_alive() and not limit.is_set():
                thread.join(0.1)
    finally:
        timer.cancel()
        timer.join()
    return dict(found)


@pytest.mark.parametrize("fabric", ["shm", "tcp"])
def test_every_call_ends_by_its_limit_when_the_server_is_stopped(fabric: str) -> None:
    table = rows()
    options: dict[str, Any] = {
        "fabrics": [fabric], "segment_bytes": 4 << 20, "detection_time": DETECTION,
    }  # fmt: skip
    with (
        other_process() as (endpoint, process),
        fw.box.connect(endpoint, timeout=LONG, **options) as patient,
        fw.box.connect(endpoint, timeout=SHORT, **options) as hasty,
        fw.box.connect(endpoint, timeout=LONG, **options) as closed,
    ):
        calls = Calls(
            patient, hasty, lambda: fw.box.connect(endpoint, timeout=SHORT, **options).close()
        )
        assert set(calls.all) | {"client.close"} == set(table)
        stop(process)
        try:
            found = outcomes({**calls.all, "client.close": lambda: closed.close(SHORT)})
        finally:
            os.kill(process, signal.SIGCONT)
        wrong = {}
        for name, (limit, here) in table.items():
            outcome = found.get(name, "waits for ever")
            returns = (fabric == "shm" and here == "does not wait") or "without an error" in limit
            if name == "client.close":
                right = name in found  # what it says depends on how far the end had come
            elif returns:
                right = outcome == "returned"
            else:
                right = isinstance(outcome, fw.DeadlineExceeded)
            if not right:
                wrong[name] = outcome
        assert not wrong
        assert "no process created" not in str(found["client.attach"])
        late = {n: str(e) for n, e in found.items() if isinstance(e, fw.DeadlineExceeded)}
        said = {name for name, says in late.items() if "the peer is silent, and " in says}
        assert said >= set(late) - OF_ANOTHER_WAIT, late
        assert all(endpoint in says for says in late.values()), late
        calls.close()


def test_an_event_loop_goes_on_beside_a_stopped_server() -> None:
    # Over shm nothing asks the server.
    options: dict[str, Any] = {"timeout": LONG, "fabrics": ["tcp"], "segment_bytes": 4 << 20}
    with other_process() as (endpoint, process), fw.box.connect(endpoint, **options) as client:
        segment, event = client.create("w", 4), client.event("event")
        seen: queue.SimpleQueue[int | fw.Error] = queue.SimpleQueue()
        going_on = threading.Timer(20, os.kill, (process, signal.SIGCONT))  # ends a hang

        async def wait_for_all() -> None:
            updates = segment.updates()
            segment.on_update(seen.put)
            tasks = [
                asyncio.create_task(updates.__anext__()), asyncio.create_task(event.wait_async())
            ]  # fmt: skip
            for _ in range(3):
                await asyncio.sleep(0)  # they begin
            with pytest.raises(fw.DeadlineExceeded, match=r"the box of 'w' .* has not answered"):
                await segment.wait_async(0, timeout=0)
            assert going_on.is_alive(), "the loop stood still"
            os.kill(process, signal.SIGCONT)
            while not all(task.done() for task in tasks):
                await segment.post.signal()
                await event._segment.post.signal()
            assert [task.result() > 0 for task in tasks] == [True, True]
            while seen.empty():
                await segment.post.signal()
            assert isinstance(seen.get(), int)

        stop(process)
        going_on.start()
        try:
            asyncio.run(wait_for_all())
        finally:
            going_on.cancel()
            going_on.join()
            os.kill(process, signal.SIGCONT)


def test_a_read_that_was_given_up_holds_its_destination_until_no_byte_can_come() -> None:
    size = 32 << 10

    def read(segment: fw.box.Segment, out: bytearray) -> None:
        segment.read(out, timeout=0.5)

    def read_without_the_package(segment: fw.box.Segment, out: bytearray) -> None:
        segment.native.read(out, 0, False, 0, 0, 0.5)

    options: dict[str, Any] = {"timeout": SHORT, "fabrics": ["tcp"]}
    with other_process() as (endpoint, process), fw.box.connect(endpoint, **options) as client:
        segment = client.create_bytes("bytes", size)
        segment.write(np.ones(size, "uint8"))
        segment.read()  # asks the server where the bytes are; the next ones ask for bytes at once
        for give_up in (read, read_without_the_package):
            out = bytearray(size)
            stop(process)
            try:
                with pytest.raises(fw.Error):
                    give_up(segment, out)
                late = not can_be_resized(out)
            finally:
                os.kill(process, signal.SIGCONT)
            assert late, give_up.__name__
            wait_until(partial(can_be_resized, out))
