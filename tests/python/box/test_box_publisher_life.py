"""Publishers that do not get as far as a version, are stopped, or are replaced."""

from __future__ import annotations

import os
import queue
import signal
import time
from collections.abc import Callable

import numpy as np
import pytest
from box_servers import other_process

import farwrite as fw

MODEL = {"w": np.ones(1000, "float32")}
OTHER = {"other": np.ones(10, "float64")}


def wait_until(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.01)


@pytest.mark.parametrize("like", [MODEL, OTHER])
def test_a_publisher_without_a_version_leaves_its_name_to_the_next(
    box: fw.box.Client, like: dict[str, np.ndarray]
) -> None:
    box.publisher("policy", like=MODEL).close()
    with box.publisher("policy", like=like) as publisher:
        assert publisher.publish(like) == 1
        with box.subscribe("policy").latest(timeout=30) as model:
            assert list(model) == list(like)
    with pytest.raises(fw.AlreadyExists, match="takeover=True"):
        box.publisher("policy", like=like)


@pytest.mark.parametrize("description", ["", "x" * 10_000])
def test_a_segment_whose_creation_was_given_up_goes_again(description: str) -> None:
    with (
        other_process() as (endpoint, process),
        fw.box.connect(endpoint, timeout=0.2, segment_bytes=4 << 20) as hasty,
        fw.box.connect(endpoint, segment_bytes=4 << 20) as box,
    ):
        os.kill(process, signal.SIGSTOP)
        try:
            with pytest.raises(fw.DeadlineExceeded):
                hasty.create_bytes("w", 100, description)
        finally:
            os.kill(process, signal.SIGCONT)
        # The server takes the requests of a client in order: the creation came before this one.
        hasty.create_bytes("later", 100)
        wait_until(lambda: [info.name for info in box.list()] == ["later"])


@pytest.mark.parametrize("fabric", ["shm", "tcp"])
@pytest.mark.parametrize("end", ["killed", "freed"])
def test_a_callback_gets_the_error_that_ends_its_calls(fabric: str, end: str) -> None:
    with (
        other_process() as (endpoint, process),
        fw.box.connect(endpoint, fabrics=[fabric], segment_bytes=4 << 20) as box,
    ):
        publisher = box.publisher("policy", like=MODEL)
        event = box.event("event")
        models: queue.Queue[object] = queue.Queue()
        signals: queue.Queue[object] = queue.Queue()
        watch = box.subscribe("policy").on_version(models.put)
        event.on_signal(signals.put)
        publisher.publish(MODEL)
        event.signal()
        assert (models.get(timeout=60), signals.get(timeout=60)) == (1, 1)
        if end == "killed":
            os.kill(process, signal.SIGKILL)
        else:
            publisher.free()
            event.free()
        expected = (fw.PeerDead, fw.Unavailable) if end == "killed" else fw.NotFound
        assert isinstance(models.get(timeout=60), expected)
        assert isinstance(signals.get(timeout=60), expected)
        assert watch.closed


def test_a_callback_gets_no_error_when_its_own_client_closes(
    box_server: fw.box.Server,
) -> None:
    called: list[object] = []
    with box_server.connect() as box, box.publisher("policy", like=MODEL):
        watch = box.subscribe("policy").on_version(called.append)
    wait_until(lambda: watch.closed)
    assert not called
