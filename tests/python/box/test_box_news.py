"""Waiting for changes: sync, asyncio and callbacks; named events."""

from __future__ import annotations

import asyncio
import gc
import queue
import threading
import time
import weakref
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import farwrite as fw
import loop_without_pool
from farwrite.box import updates


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(coroutine, 30))


def test_wait_returns_the_present_version(box: fw.box.Client) -> None:
    segment = box.create("w", 1, "float32")
    segment.fill(1)
    segment.fill(2)
    assert segment.wait(1) == 2
    later = threading.Timer(0.1, lambda: segment.fill(3))
    later.start()
    assert segment.wait(3, timeout=30) == 3
    later.join()


def test_wait_ends_with_its_timeout(box: fw.box.Client) -> None:
    segment = box.create("w", 1, "float32")
    with pytest.raises(fw.DeadlineExceeded):
        segment.wait(1, timeout=0.05)
    with pytest.raises(fw.DeadlineExceeded):
        segment.read(min_version=1, timeout=0.05)


def test_wait_ends_when_the_segment_is_freed(box: fw.box.Client) -> None:
    segment = box.create("w", 1, "float32")
    later = threading.Timer(0.1, segment.free)
    later.start()
    with pytest.raises(fw.NotFound):
        segment.wait(1, timeout=30)
    later.join()


WAITS: dict[str, Callable[[Any], object]] = {
    "Segment.wait": lambda handle: handle.wait(99),
    "Segment.wait_async": lambda handle: asyncio.run(handle.wait_async(99)),
    "Segment.updates": lambda handle: list(handle.updates()),
    "Segment.updates, async": lambda handle: asyncio.run(_all_of(handle.updates())),
    "Subscriber.latest": lambda handle: handle.latest(newer_than=handle.latest()),
    "Subscriber.wait_async": lambda handle: asyncio.run(handle.wait_async(handle.latest())),
    "Subscriber": lambda handle: [model.version for model in handle],
    "Subscriber, async": lambda handle: asyncio.run(_all_of(handle)),
}


async def _all_of(iterable: Any) -> list[Any]:
    return [one if isinstance(one, int) else one.version async for one in iterable]


@pytest.mark.parametrize("wait", WAITS)
def test_a_wait_ends_when_its_own_handle_closes(box: fw.box.Client, wait: str) -> None:
    model = {"w": np.ones(1, "float32")}
    box.publisher("model", model).publish(model)
    box.create("w", 1)
    handles: list[Any] = [
        box.subscribe("model") if wait.startswith("Subscriber") else box.attach("w")
        for _ in range(2)
    ]
    outcomes: list[object] = []

    def run_wait() -> None:
        try:
            outcomes.append(WAITS[wait](handles[0]))
        except fw.Error as error:
            outcomes.append(type(error))

    waiting = threading.Thread(target=run_wait)
    waiting.start()
    time.sleep(0.1)  # most likely it waits by then; before that, the same comes of it
    handles[0].close() if wait.startswith("Subscriber") else handles[0].detach()
    waiting.join(30)
    assert len(outcomes) == 1
    assert outcomes[0] in (fw.FailedPrecondition, [], [1])
    # Another handle of the same segment goes on.
    assert handles[1].version == (1 if wait.startswith("Subscriber") else 0)


@pytest.mark.parametrize("iterates", ["updates", "models"])
def test_an_iteration_goes_on_after_a_wait_that_was_given_up(
    box: fw.box.Client, iterates: str
) -> None:
    model = {"w": np.ones(1, "float32")}
    publisher = box.publisher("model", model)
    publisher.publish(model)

    async def take() -> list[int]:
        subscriber = box.subscribe("model")
        stream: Any = aiter(box.attach("model").updates(since=0))
        if iterates == "models":
            stream = aiter(subscriber)
        seen = [await anext(stream)]
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(anext(stream), 0.05)
        publisher.publish(model)
        seen.append(await anext(stream))
        return [one if isinstance(one, int) else one.version for one in seen]

    assert run(take()) == [1, 2]


def test_a_task_awaits_a_version_and_a_change(box: fw.box.Client) -> None:
    segment = box.create("w", 1, "float32")

    async def both() -> tuple[int, int, float]:
        waiting = asyncio.create_task(segment.wait_async(2, timeout=30))
        first = await segment.post.fill(1)
        await segment.post.fill(4)
        return first, await waiting, float((await segment.read_async())[0])

    assert run(both()) == (1, 2, 4.0)


class Watched:
    """A segment's native handle, which shows what is kept of each callback.

    Not a class of the test: CPython 3.13 without the GIL keeps such a class, and with it the box.
    """

    def __init__(self, native: Any) -> None:
        self.native = native
        self.refs: list[weakref.ref[Any]] = []

    def on_version(self, version: int, epoch: int, function: Any) -> int:
        self.refs.append(weakref.ref(function))
        return self.native.on_version(version, epoch, function)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.native, name)


def test_a_wait_that_was_given_up_leaves_no_request(box: fw.box.Client) -> None:
    segment = box.create("w", 1)
    native: Any = Watched(segment.native)
    watched: Any = SimpleNamespace(native=native, place=segment.place)

    async def give_up() -> None:
        for _ in range(3):
            with pytest.raises(fw.DeadlineExceeded):
                await updates.wait_async(watched, 1, timeout=0.001)
        task = asyncio.create_task(updates.wait_async(watched, 1))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run(give_up())
    gc.collect()
    assert len(native.refs) >= 4
    assert not any(ref() for ref in native.refs)
    # A wait that goes on is not touched.
    assert segment.fill(1) == run(segment.wait_async(1))


def test_tasks_that_wait_and_read_take_no_thread_of_the_pool(box: fw.box.Client) -> None:
    model = {"w": np.ones(1, "float32")}
    publisher = box.publisher("model", model)
    publisher.publish(model)
    segment, event = box.create("w", 1), box.event("event")

    async def read() -> list[Any]:
        subscriber = box.subscribe("model")
        first = await subscriber.latest_async()
        waiting = [
            *(asyncio.create_task(subscriber.latest_async(newer_than=first)) for _ in range(40)),
            *(asyncio.create_task(segment.wait_async(1)) for _ in range(40)),
            *(asyncio.create_task(event.wait_async(1)) for _ in range(40)),
        ]
        await asyncio.sleep(0.01)
        await segment.post.fill(1)
        event.signal()
        publisher.publish(model)
        found = await asyncio.gather(*waiting)
        return [*{getattr(one, "version", one) for one in found}, (await segment.read_async())[0]]

    assert loop_without_pool.run(read()) == [1, 2, 1.0]


def test_an_awaited_version_has_a_timeout(box: fw.box.Client) -> None:
    segment = box.create("w", 1, "float32")
    with pytest.raises(fw.DeadlineExceeded):
        run(segment.wait_async(1, timeout=0.05))


async def _answered(call: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Call again while a busy machine keeps the server from its answer."""
    for _ in range(30):
        try:
            return await call()
        except fw.DeadlineExceeded as error:
            assert "the box of" in str(error) and "has not answered in time" in str(error)
    raise AssertionError("the box has never answered")


@pytest.mark.parametrize("timeout", [0, 1e-9])
def test_a_task_without_time_finds_the_version_that_is_there(
    box: fw.box.Client, timeout: float
) -> None:
    model = {"w": np.ones(1, "float32")}
    box.publisher("model", model).publish(model)
    subscriber, segment, event = box.subscribe("model"), box.create("w", 1), box.event("event")
    segment.fill(1)
    event.signal()
    waits: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
        "Segment.wait_async": lambda: segment.wait_async(1, timeout),
        "Event.wait_async": lambda: event.wait_async(1, timeout),
        "Subscriber.wait_async": lambda: subscriber.wait_async(timeout=timeout),
        "another epoch": lambda: segment.wait_async(9, timeout, epoch=segment.epoch + 1),
    }

    async def find() -> dict[str, Any]:
        found = {name: await _answered(wait) for name, wait in waits.items()}
        with await _answered(lambda: subscriber.latest_async(timeout=timeout)) as latest:
            found["Subscriber.latest_async"] = latest.version
        return found

    found = run(find())
    assert found.pop("Subscriber.wait_async")[1] == 1
    assert set(found.values()) == {1}


def test_a_task_iterates_over_versions_until_the_segment_is_freed(box: fw.box.Client) -> None:
    segment = box.create("w", 1, "float32")

    async def take() -> list[int]:
        seen = []
        segment.fill(1)
        async for version in segment.updates(since=0):
            seen.append(version)
            if version == 3:
                segment.free()
            else:
                segment.fill(version)
        return seen

    assert run(take()) == [1, 2, 3]


def test_a_loop_iterates_over_versions_until_the_client_closes(
    box_server: fw.box.Server,
) -> None:
    client = box_server.connect()
    segment = client.create("w", 1, "float32")
    segment.fill(1)
    seen = []
    for version in segment.updates(since=0):
        seen.append(version)
        if version < 3:
            segment.fill(0)
        else:
            client.close()
    assert seen == [1, 2, 3]


def test_a_callback_gets_the_last_version(box: fw.box.Client) -> None:
    segment = box.create("w", 1, "float32")
    seen: queue.Queue[int] = queue.Queue()
    with segment.on_update(seen.put) as watch:
        for _ in range(20):
            segment.fill(1)
        versions = [seen.get(timeout=30)]
        while versions[-1] < 20:
            versions.append(seen.get(timeout=30))
        assert versions == sorted(set(versions))
        assert not watch.closed
    segment.fill(2)
    time.sleep(0.05)
    assert seen.empty()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_callback_that_fails_is_called_again(box: fw.box.Client) -> None:
    segment = box.create("w", 1, "float32")
    seen: queue.Queue[int] = queue.Queue()

    def fail(version: int) -> None:
        seen.put(version)
        raise RuntimeError("no")

    with segment.on_update(fail):
        segment.fill(1)
        assert seen.get(timeout=30) == 1
        segment.fill(1)
        assert seen.get(timeout=30) == 2


def test_a_callback_that_would_wait_for_its_own_client_is_told_so(
    box_server: fw.box.Server, box: fw.box.Client
) -> None:
    with box_server.connect() as mine:
        segment = mine.create("w", 4, "float32")
        event = mine.event("event")
        theirs = box.attach("w")
        calls: dict[str, Callable[[], object]] = {
            "version": lambda: segment.version,
            "read": segment.read,
            "read into": lambda: segment.read(np.empty(4, "float32")),
            "read a version": lambda: segment.read(min_version=100, timeout=20),
            "wait": lambda: segment.wait(100, timeout=20),
            "lease": segment.lease,
            "fill": lambda: segment.fill(9),
            "write": lambda: segment.write(np.full(4, 9, "float32")),
            "wait for what was posted": lambda: segment.post.signal().wait(20),
            "signal": event.signal,
            "create": lambda: mine.create("new", 4),
            "attach": lambda: mine.attach("w", timeout=20),
            "list": mine.list,
            "watch": lambda: segment.on_update(print),
            "free": segment.free,
            "close": mine.close,
        }
        outcomes: queue.Queue[dict[str, object]] = queue.Queue()

        def call_all(version: int) -> None:
            found: dict[str, object] = {}
            for name, call in calls.items():
                try:
                    found[name] = call()
                except fw.Error as error:
                    found[name] = type(error)
            found["other client"] = theirs.read().tolist()
            segment.post.fill(5)
            outcomes.put(found)

        with segment.on_update(call_all):
            theirs.fill(1)
            found = outcomes.get(timeout=60)
        assert found.pop("other client") == [1] * 4
        assert found == dict.fromkeys(calls, fw.FailedPrecondition)
        # Another client's fill, the signal that was posted, and what was posted last.
        segment.wait(3, timeout=20)
        assert segment.read().tolist() == [5] * 4


def test_the_calls_end_when_the_segment_is_freed(box: fw.box.Client) -> None:
    segment = box.create("w", 1, "float32")
    watch = segment.on_update(lambda version: None)
    segment.free()
    give_up = time.monotonic() + 10
    while not watch.closed:
        assert time.monotonic() < give_up
        time.sleep(0.01)


def test_the_calls_go_on_while_the_client_is_held(box: fw.box.Client) -> None:
    seen: queue.Queue[int] = queue.Queue()
    box.event("epoch").on_signal(seen.put)  # neither the event nor the watch is kept
    gc.collect()
    for count in range(1, 4):
        box.event("epoch").signal()
        assert seen.get(timeout=30) == count


def test_a_held_watch_keeps_its_client(box_server: fw.box.Server, box: fw.box.Client) -> None:
    seen: queue.Queue[int] = queue.Queue()
    segment = box.create("w", 1, "float32")
    watch = box_server.connect().attach("w").on_update(seen.put)
    gc.collect()
    segment.fill(1)
    assert seen.get(timeout=30) == 1
    assert not watch.closed


@pytest.mark.parametrize("changes", [0, 3])
def test_a_client_with_a_callback_goes_with_its_last_reference(
    box_server: fw.box.Server, box: fw.box.Client, changes: int
) -> None:
    segment = box.create("w", 1, "float32")
    seen: queue.Queue[int] = queue.Queue()

    def leave_a_callback() -> None:
        client = box_server.connect()
        mine = client.attach("w")

        def note(version: int) -> None:
            assert mine.name == "w"  # so the callback refers to the segment
            seen.put(version)

        mine.on_update(note)
        for version in range(1, changes + 1):
            segment.fill(version)
            assert seen.get(timeout=30) == version
        assert box_server.stats().clients == 2

    leave_a_callback()
    give_up = time.monotonic() + 20
    while box_server.stats().clients > 1:
        gc.collect()
        assert time.monotonic() < give_up, "the client lives on"
        time.sleep(0.05)
    segment.fill(0)
    assert seen.empty()


def test_a_closed_watch_keeps_no_attachment(box: fw.box.Client) -> None:
    segment = box.create("w", 1, "float32", temporary=True)
    with segment.on_update(lambda version: None):
        pass
    del segment
    assert box.list() == []


def test_processes_meet_at_an_event(box_server: fw.box.Server, box: fw.box.Client) -> None:
    event = box.event("epoch")
    assert (event.name, event.count) == ("epoch", 0)
    with box_server.connect() as other:
        theirs = other.event("epoch")
        later = threading.Timer(0.1, theirs.signal)
        later.start()
        assert event.wait(timeout=30) == 1
        later.join()
        assert theirs.wait(1) == 1  # who waits late misses nothing
        with pytest.raises(fw.DeadlineExceeded):
            event.wait(2, timeout=0.05)


def test_an_event_reaches_tasks_and_callbacks(box: fw.box.Client) -> None:
    event = box.event("epoch")
    seen: queue.Queue[int] = queue.Queue()

    async def take() -> int:
        asyncio.get_running_loop().call_later(0.05, event.signal)
        return await event.wait_async(timeout=30)

    with event.on_signal(seen.put):
        assert run(take()) == 1
        assert seen.get(timeout=30) == 1


def test_a_segment_with_elements_is_no_event(box: fw.box.Client) -> None:
    box.create("w", 1, "float32")
    with pytest.raises(fw.InvalidArgument):
        box.event("w")
