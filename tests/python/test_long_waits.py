"""A wait for something that another process has to do says after a second what it waits for."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import numpy as np
import pytest

import farwrite as fw
from conftest import Pair
from processes import wait_until

MODEL = {"w": np.zeros(5 << 20, "uint8")}
"""More than half of the memory of a server of 8 MiB."""
STILL = "still waiting, for ever: "


class Log:
    """What this process logs."""

    def __init__(self, capfd: pytest.CaptureFixture[str]) -> None:
        self._capfd = capfd
        self._said = ""

    def said(self) -> str:
        """Return what it has logged since the last take()."""
        self._said += self._capfd.readouterr().err
        return self._said

    def take(self) -> str:
        """Return that once."""
        said, self._said = self.said(), ""
        return said


@pytest.fixture
def log(capfd: pytest.CaptureFixture[str]) -> Log:
    return Log(capfd)


@contextmanager
def meanwhile(work: Callable[[], object]) -> Iterator[None]:
    """Run the block, and `work` in another thread."""
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def once_told(log: Log, change: Callable[[], object]) -> AbstractContextManager[None]:
    """Run the block, and `change` once it has said that it waits."""

    def work() -> None:
        try:
            wait_until(lambda: "still waiting" in log.said())
        finally:
            change()

    return meanwhile(work)


@contextmanager
def full_box() -> Iterator[tuple[fw.box.Client, fw.box.Subscriber, Callable[[], object]]]:
    """A box without memory for a second buffer, a model in it, and what makes the room."""
    with fw.box.serve(memory="8M", pool="2M") as server, server.connect() as box:
        publisher = box.publisher("model", like=MODEL)
        publisher.publish(MODEL)
        subscriber = box.subscribe("model")
        yield box, subscriber, publisher.free


@pytest.mark.parametrize("waits", ["in this thread", "in a loop"])
def test_latest_says_that_the_server_has_no_memory_for_the_next_version(
    log: Log, waits: str
) -> None:
    with full_box() as (box, subscriber, free), once_told(log, free), pytest.raises(fw.NotFound):
        if waits == "in a loop":
            asyncio.run(subscriber.latest_async())
        else:
            subscriber.latest()
    said = log.take()
    assert said.count("still waiting") == 1
    assert f"{STILL}latest of 'model' at {box.server.endpoint}: lease a segment" in said
    assert "has no room for the version that comes next, of 5242896 bytes; serve with more" in said
    assert "latest(copy=True) needs no buffer" in said


def test_latest_says_that_the_caller_holds_the_buffers(log: Log) -> None:
    # Over shm: over tcp a reader holds its own copy.
    with fw.box.serve(memory="8M", pool="2M", fabrics=["shm"]) as server, server.connect() as box:
        publisher = box.publisher("two", like={"w": np.zeros(4)}, buffers=2)
        publisher.publish({"w": np.zeros(4)})
        subscriber = box.subscribe("two")
        held = subscriber.latest()
        publisher.publish({"w": np.ones(4)})
        with once_told(log, held.close), subscriber.latest(timeout=60) as model:
            assert model.version == 2
    said = log.take()
    assert len(re.findall(r"still waiting, for another [45]\d\.", said)) == 1
    assert "its 2 buffers are in use: other versions are leased" in said
    assert "the caller's own models count" in said


@pytest.mark.parametrize("waits", ["in this thread", "in a loop"])
def test_a_wait_for_the_first_version_says_that_none_was_published(
    box: fw.box.Client, log: Log, waits: str
) -> None:
    state = {"w": np.zeros(4)}
    publisher = box.publisher("first", like=state)
    subscriber = box.subscribe("first")

    def publish() -> None:
        publisher.publish(state)

    with once_told(log, publish):
        if waits == "in a loop":
            model = asyncio.run(subscriber.latest_async())
        else:
            model = subscriber.latest()
    said = log.take()
    assert said.count(STILL) == 1, said
    assert "'first'" in said
    assert "the server and the process that changes or publishes it run" in said
    model.close()


def test_a_wait_for_the_next_version_may_take_as_long_as_a_step_of_the_training(
    box: fw.box.Client, log: Log
) -> None:
    state = {"w": np.zeros(4)}
    publisher = box.publisher("next", like=state)
    publisher.publish(state)

    def publish() -> None:
        time.sleep(1.3)
        publisher.publish(state)

    with box.subscribe("next").latest() as model, meanwhile(publish):
        box.subscribe("next").latest(newer_than=model).close()
    assert log.take() == ""


def test_an_attach_says_which_segment_none_has_created(box: fw.box.Client, log: Log) -> None:
    with once_told(log, lambda: box.create("late", 4)):
        assert box.attach("late", timeout=None).name == "late"
    said = log.take()
    assert said.count(STILL) == 1
    assert "no process created or published 'late' yet; start the process that does" in said


def test_a_lookup_says_which_name_the_peer_has_not_published(pair: Pair, log: Log) -> None:
    for look_up in (pair.near.lookup, pair.near.lookup_bytes):
        with once_told(log, lambda: pair.right.publish("late", pair.right.allocate(4))):
            look_up("late", timeout=None)
        said = log.take()
        assert said.count(STILL) == 1
        assert 'the peer has not published "late"; check the name, or let the peer' in said
        pair.right.unpublish("late")
    with pytest.raises(fw.NotFound, match='look "none" up: the peer has published'):
        pair.near.lookup("none", timeout=3)
    assert "still waiting, for another " in log.take()


def test_a_sender_says_that_the_peer_has_opened_no_receiver(pair: Pair, log: Log) -> None:
    receivers: list[fw.TensorReceiver] = []
    opens = once_told(log, lambda: receivers.append(fw.TensorReceiver(pair.far, "late")))
    with opens, fw.TensorSender(pair.near, "late", timeout=None) as sender:
        sender.send(np.ones(4))
        wait_until(lambda: receivers)
        assert receivers[0].receive(30).sum() == 4
    said = log.take()
    assert said.count(STILL) == 1
    assert 'the peer has opened no receiver named "late" yet' in said
    receivers[0].close()


@pytest.mark.parametrize("waits", ["in this thread", "in another thread"])
def test_a_closing_sender_says_what_the_receiver_has_not_taken(
    pair: Pair, log: Log, waits: str
) -> None:
    receiver = fw.TensorReceiver(pair.far, "grads", shape=(4,), dtype="f4", slots=3)
    sender = fw.TensorSender(pair.near, "grads", 20)
    for _ in range(3):
        sender.send(np.zeros(4, "f4"))
    receiver.receive(20)

    def close() -> None:
        with pytest.raises(fw.DeadlineExceeded, match="took 1 of 3 tensors in time"):
            sender.close(1.5)

    if waits == "in this thread":
        close()
    else:
        thread = threading.Thread(target=close)
        thread.start()
        thread.join()
    said = log.take()
    assert said.count("took 1 of 3 tensors so far, and this thread waits; let it receive") == 1
    receiver.receive(20)
    receiver.receive(20)
    sender.close(20)
