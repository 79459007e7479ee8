"""RegisteredArray: NumPy and DLPack without a copy, and lifetimes."""

from __future__ import annotations

import gc
import sys
from typing import Any

import numpy as np
import pytest

import farwrite as fw
from conftest import Pair


class DLPackOnly:
    """An exporter of DLPack and nothing else, as arrays of other frameworks are."""

    def __init__(self, array: Any, device: tuple[int, int] = (1, 0)) -> None:
        self._array = array
        self._device = device

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device


def address(array: Any) -> int:
    """Where the first element lies."""
    return int(array.__array_interface__["data"][0])


def test_numpy_sees_it_without_a_copy(device: fw.Device) -> None:
    registered = device.allocate((2, 3), "float32")
    viewed = np.asarray(registered)
    assert address(viewed) == address(registered.array)
    viewed[0, 0] = 5
    assert registered.array[0, 0] == 5
    assert len(registered) == 2
    assert repr(registered) == "<RegisteredArray float32 (2, 3), peers may read>"
    registered.close()
    assert repr(registered) == "<RegisteredArray float32 (2, 3), closed to peers>"


def test_a_conversion_copies_only_when_asked(device: fw.Device) -> None:
    registered = device.allocate(3, "int32")
    registered.array[:] = [1, 2, 3]
    assert address(np.array(registered, copy=True)) != address(registered.array)
    assert np.asarray(registered, dtype="float64").tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(ValueError, match="without a copy"):
        registered.__array__(np.dtype("float64"), copy=False)


def test_numpy_is_told_how_to_get_a_peers_array(pair: Pair) -> None:
    pair.left.publish("source", pair.left.allocate(3, "int32"))
    remote = pair.far.lookup("source")
    with pytest.raises(TypeError, match=r"x\.read\(\), or make a view of it, x\.alias\(\)"):
        np.asarray(remote)
    assert np.asarray(remote.alias()).shape == (3,)


def test_dlpack_out_shares_the_memory(device: fw.Device) -> None:
    registered = device.allocate((2, 3), "float32")
    assert registered.__dlpack_device__() == (1, 0)
    imported = np.from_dlpack(registered)
    assert imported.shape == (2, 3)
    assert address(imported) == address(registered.array)


def test_dlpack_in_is_a_source_and_a_destination(pair: Pair) -> None:
    inbox = pair.far.publish("inbox", pair.far.allocate(4, "float32"))
    source = np.arange(4, dtype="float32")
    pair.near.write(DLPackOnly(source), pair.near.lookup("inbox"), notify=1).wait()
    pair.far.wait_notification(10)
    assert inbox.array.tolist() == [0, 1, 2, 3]

    published = pair.left.publish("source", pair.left.allocate(4, "float32"))
    published.array[:] = 6
    out = np.zeros(4, "float32")
    pair.far.read(pair.far.lookup("source"), DLPackOnly(out)).wait()
    assert out.tolist() == [6, 6, 6, 6]


def test_a_strided_dlpack_array_is_not_copied_behind_your_back(pair: Pair) -> None:
    pair.far.publish("inbox", pair.far.allocate(2, "float32"))
    strided = DLPackOnly(np.arange(4, dtype="float32")[::2])
    with pytest.raises(fw.InvalidArgument, match="not C-contiguous; copy it"):
        pair.near.write(strided, pair.near.lookup("inbox"))


def test_an_array_on_an_accelerator_that_is_not_cuda_is_refused(pair: Pair) -> None:
    pair.far.publish("inbox", pair.far.allocate(4, "float32"))
    on_rocm = DLPackOnly(np.zeros(4, "float32"), device=(10, 0))
    with pytest.raises(fw.InvalidArgument, match="device type 10"):
        pair.near.write(on_rocm, pair.near.lookup("inbox"))


@pytest.mark.parametrize("device", [None, 1, (1,), (1, 0, 0), (None, 0), ("cpu", 0)], ids=str)
def test_an_array_that_does_not_say_where_it_is_is_refused(pair: Pair, device: Any) -> None:
    pair.far.publish("inbox", pair.far.allocate(4, "float32"))
    lost = DLPackOnly(np.zeros(4, "float32"), device=device)
    with pytest.raises(fw.InvalidArgument, match="__dlpack_device__"):
        pair.near.write(lost, pair.near.lookup("inbox"))


def test_a_view_outlives_its_array_and_its_device() -> None:
    device = fw.Device()
    view = device.allocate(1000, "int64").array[10:20]
    view[:] = 3
    device.close()
    del device
    gc.collect()
    assert view.tolist() == [3] * 10
    view[:] = 4
    assert view.sum() == 40


def test_memory_is_free_again_after_the_last_view(device: fw.Device) -> None:
    array = device.allocate(1 << 20)
    view = array.array[5:]
    del array
    gc.collect()
    assert device.stats().send.used >= 1 << 20
    del view
    gc.collect()
    assert device.stats().send.used == 0


def test_another_librarys_view_keeps_the_memory(device: fw.Device) -> None:
    array = device.allocate(1 << 20, "uint8")
    array.array[:] = 5
    view = np.from_dlpack(array)[5:]
    del array
    gc.collect()
    device.allocate(1 << 20, "uint8").array[:] = 6
    assert (view == 5).all()
    del view
    gc.collect()
    assert device.stats().send.used == 0


def test_a_published_array_lives_on_without_a_reference(pair: Pair) -> None:
    pair.left.publish("kept", pair.left.allocate(3, "int64")).array[:] = 8
    gc.collect()
    assert pair.far.lookup("kept").read().tolist() == [8, 8, 8]


def test_an_alias_outlives_its_channel_and_keeps_the_memory(pair: Pair) -> None:
    source = pair.left.publish("source", pair.left.allocate(1 << 20))
    source.array[:] = 9
    alias = pair.far.lookup("source").alias()[100:200]
    pair.left.unpublish("source")
    del source
    gc.collect()
    assert pair.left.stats().leases_held_by_peers == 1
    assert pair.left.stats().send.used >= 1 << 20
    pair.left.allocate(1 << 20).array[:] = 1
    assert (alias == 9).all()
    pair.far.close()
    assert (alias == 9).all()


def test_a_lease_ends_with_the_last_alias(pair: Pair) -> None:
    pair.left.publish("source", pair.left.allocate(100))
    remote = pair.far.lookup("source")
    alias = remote.alias()
    del remote
    gc.collect()
    assert pair.far.stats().leases_held == 1
    del alias
    gc.collect()
    assert pair.far.stats().leases_held == 0


def test_transfers_keep_no_reference(pair: Pair) -> None:
    pair.far.publish("inbox", pair.far.allocate(4, "int64"))
    remote = pair.near.lookup("inbox")
    source = np.zeros(4, "int64")
    before = sys.getrefcount(source)
    for _ in range(100):
        pair.near.write(source, remote).wait()
    pair.near.flush().wait()
    assert sys.getrefcount(source) == before
