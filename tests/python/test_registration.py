"""Memory of the user's own, registered for longer than one transfer."""

from __future__ import annotations

import gc
import sys

import numpy as np
import pytest

import farwrite as fw
from conftest import Pair


def test_registered_memory_serves_transfers(pair: Pair) -> None:
    pair.right.publish("weights", pair.right.allocate(1000, "float32"))
    inbox = pair.far.publish("inbox", pair.far.allocate(1000, "float32"))
    batch = np.arange(1000, dtype="float32")
    with pair.left.register(batch) as registration:
        assert registration.nbytes == 4000
        assert registration.has_effect == (pair.left.stats().adapters.live > 0)
        pair.near.write(batch, pair.near.lookup("inbox")).wait()
        pair.near.flush().wait()
        assert inbox.array.tolist() == batch.tolist()
    assert registration.nbytes == 0
    assert not registration.has_effect
    assert repr(registration) == "<MemoryRegistration of 0 bytes, released>"
    registration.release()
    assert pair.left.stats().adapters.live == 0


def test_a_registration_holds_the_memory() -> None:
    memory = bytearray(100)
    with fw.Device() as device:
        registration = device.register(memory)
        with pytest.raises(BufferError):
            memory.extend(b"more")
        registration.release()
        memory.extend(b"more")
        array = np.zeros(10)
        count = sys.getrefcount(array)
        registration = device.register(array)
        assert sys.getrefcount(array) > count
        del registration
        gc.collect()
        assert sys.getrefcount(array) == count


def test_read_only_memory_and_foreign_types_can_be_registered() -> None:
    with fw.Device() as device:
        assert device.register(b"constant").nbytes == 8
        assert device.register(np.zeros((3, 4), "datetime64[s]")).nbytes == 96
        registration = device.register(np.zeros(4))
    registration.release()  # after the device


def test_what_is_no_memory_is_refused() -> None:
    with fw.Device() as device:
        with pytest.raises(fw.InvalidArgument, match="register: int is neither an array"):
            device.register(3)
        with pytest.raises(fw.InvalidArgument, match="not C-contiguous"):
            device.register(np.zeros((4, 4)).T[1:])
        with pytest.raises(fw.InvalidArgument, match="register memory: the memory has no bytes"):
            device.register(np.zeros(0))
    with pytest.raises(fw.FailedPrecondition, match="register memory: the device is closed"):
        device.register(np.zeros(4))
