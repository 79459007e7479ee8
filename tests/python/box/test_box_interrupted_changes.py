"""An exception in the middle of a change, as a signal handler raises it, mixes no versions."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import farwrite as fw
from farwrite import _farwrite
from interrupted import interrupt_each_place

FILES = (
    "publisher.py", "changes.py", "segment.py", "update.py", "completion.py", "array.py",
    "client.py",
)  # fmt: skip
"""What changes run of Python, but for the walks through a model and through dtypes."""
WORDS = 1 << 14


def filled(value: int) -> dict[str, Any]:
    return {"a": np.full(WORDS, value, "int64"), "b": np.full(WORDS, value, "int64")}


def values_of(model: fw.box.Model) -> set[int]:
    return {int(value) for name in ("a", "b") for value in np.unique(model[name])}


@pytest.mark.parametrize("place", ["of a client", "of the server"])
def test_an_exception_at_any_instruction_of_a_publish_lets_nothing_later_into_its_version(
    box_server: fw.box.Server,
    box: fw.box.Client,
    place: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    publisher = (box if place == "of a client" else box_server).publisher("policy", like=filled(0))
    publisher.publish(filled(0))
    subscriber = box.subscribe("policy")
    other = box.create("other", 2 << 20, "float32")
    copy = _farwrite.copy
    copied = 0

    def copy_and_look(destination: Any, source: Any) -> None:
        nonlocal copied
        copy(destination, source)
        copied += 1
        if copied == 1:
            box.list()  # answered when the server has applied the earlier changes of this client
            with subscriber.latest() as model:
                assert len(values_of(model)) == 1

    value = 1

    def publish() -> None:
        # The server applies these first: it reads the model when they are done.
        for _ in range(2):
            other.post.scale(1)
        publisher.publish(filled(value))

    def publish_another() -> None:
        nonlocal copied, value
        with monkeypatch.context() as patch:
            copied = 0
            patch.setattr(_farwrite, "copy", copy_and_look)
            publisher.publish(filled(value + 1))
        with subscriber.latest() as model:
            assert values_of(model) == {value + 1}
        value += 2

    assert interrupt_each_place(publish, publish_another, *FILES) > len(FILES)


def test_a_change_is_settled_when_the_server_has_answered(box: fw.box.Client) -> None:
    segment = box.create("segment", WORDS, "int64")
    update = segment.post.write(box.array(WORDS, "int64"))
    assert update.wait(30) == 1
    assert update.settled()
    assert segment.post.signal().wait(30) == 2


def test_a_client_closes_when_the_server_has_let_go_of_the_sources_of_its_changes(
    box_server: fw.box.Server, box: fw.box.Client
) -> None:
    segment = box.create("segment", WORDS, "int64")
    box.create("other", 2 << 20, "float32")
    with box_server.connect() as leaving:
        its = leaving.attach("other")
        for _ in range(10):
            its.post.scale(1)
        source = leaving.array(WORDS, "int64")
        source.array[:] = 1
        left = leaving.attach("segment").post.write(source)
        leaving.close(60)
    assert left.done()
    assert left.settled()
    source.array[:] = 9
    while box_server.stats().clients > 1:
        time.sleep(0.001)
    assert set(np.unique(segment.read())) <= {0, 1}


@pytest.mark.parametrize("operation", ["write", "accumulate"])
@pytest.mark.parametrize("waits", [True, False])
def test_an_exception_at_any_instruction_of_a_change_frees_no_memory_that_the_server_reads(
    box: fw.box.Client, operation: str, waits: bool
) -> None:
    segment = box.create("segment", WORDS, "int64")
    other = box.create("other", 2 << 20, "float32")
    changes = segment if waits else segment.post
    change = changes.write if operation == "write" else changes.accumulate

    def post() -> None:
        for _ in range(2):
            other.post.scale(1)
        memory = box.array(WORDS, "int64")
        memory.array[:] = 1
        change(memory)

    before = 0

    def use_freed_memory() -> None:
        nonlocal before
        box.array(WORDS, "int64").array[:] = 1000
        box.list()  # answered when the server has applied the earlier changes of this client
        found = np.unique(segment.read())
        assert len(found) == 1
        assert found[0] in (before, 1 if operation == "write" else before + 1)
        before = int(found[0])

    assert interrupt_each_place(post, use_freed_memory, *FILES) > len(FILES)
