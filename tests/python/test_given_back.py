"""What closes gives its memory back, whatever objects the program keeps."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable

import numpy as np
import pytest

import farwrite as fw
from conftest import Pair


def _memory() -> set[str]:
    """Return the descriptors of memory in this process, each with its name."""
    found = set()
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{descriptor}")
        except FileNotFoundError:
            continue
        if target.startswith("/memfd:"):
            found.add(f"{descriptor} {target}")
    return found


@pytest.fixture
def left() -> Callable[[], set[str]]:
    """Return the memory that is new since the test began."""
    gc.collect()
    before = _memory()
    return lambda: _memory() - before


def _goes_back(left: Callable[[], set[str]]) -> bool:
    gc.collect()
    give_up = time.monotonic() + 60  # large memory goes back in a thread
    while left() and time.monotonic() < give_up:
        time.sleep(0.01)
    return not left()


@pytest.mark.parametrize("fabric", ["shm", "tcp"])
@pytest.mark.parametrize("pool", [0, "8M"])
def test_a_closed_box_keeps_no_memory(
    left: Callable[[], set[str]], fabric: str, pool: int | str
) -> None:
    model = {"w": np.ones(1 << 20, np.uint8)}
    server = fw.box.serve(memory="64M", pool=pool, segment_bytes="4M", fabrics=[fabric])
    client = server.connect(segment_bytes="4M")
    segment = client.create("s", 1 << 20)
    update = segment.post.fill(1)
    assert update.wait(10) == 1
    watch = segment.on_update(lambda version: None)
    lease = segment.lease()
    lease.close()
    publishers = server.publisher("m", model), client.publisher("n", model)
    for publisher in publishers:
        publisher.publish(model)
    subscriber = client.subscribe("m")
    with subscriber.latest(timeout=10):
        pass
    assert left()
    client.close()
    server.close()
    kept = [server, client, segment, update, watch, lease, publishers, subscriber]
    assert _goes_back(left)
    assert server.stats().segments == 0
    assert len(kept) == 8


def test_a_version_may_be_filled_while_its_server_closes(left: Callable[[], set[str]]) -> None:
    server = fw.box.serve(memory="64M", pool=0, segment_bytes="4M")
    client = server.connect()
    segment = client.create_bytes("m", 1 << 20)
    draft = server._native.draft(segment.key)
    view = draft.view()
    client.close()
    server.close()
    view[:] = 7
    with pytest.raises(fw.FailedPrecondition, match="the server is closed"):
        draft.commit(False, 0)
    assert _goes_back(left)


def test_a_closed_device_gives_each_array_back_with_the_array(
    left: Callable[[], set[str]],
) -> None:
    device = fw.Device()
    small, large = device.allocate(1, "int32"), device.allocate(8 << 20, "uint8")
    view = large.array
    device.close()
    view[:] = 7
    assert left()
    del large
    assert view[-1] == 7
    del view, small
    assert _goes_back(left)
    assert device.endpoint


def test_a_closed_channel_gives_each_array_back_with_the_array(
    left: Callable[[], set[str]], make_pair: Callable[..., Pair]
) -> None:
    pair = make_pair()
    array = pair.near.allocate(8 << 20, "uint8")
    pair.left.close()
    pair.right.close()
    assert any("receive memory" in each for each in left())
    del array
    assert _goes_back(left)
    assert pair.near.closed is False  # the device has closed it
