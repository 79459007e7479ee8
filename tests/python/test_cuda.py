"""Arrays on GPUs: allocation, transfers, aliases, streams, arguments.

On a test double of the driver, whose memory the CPU cannot read and whose copies are late; with
FARWRITE_TEST_GPU=1 on a GPU.
"""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest

import farwrite as fw
from conftest import Pair
from cuda_double import Double
from farwrite.memory.cuda import as_cuda_array
from gpu_arrays import COUNT, ByDlpack, ByInterface, ByOlderDlpack, Exporter, counting, to_host


def test_a_region_on_a_gpu_is_no_numpy_array(cuda: None, device: fw.Device) -> None:
    registered = device.allocate((4, 3), "float32", kind="cuda:0")
    array = registered.array
    assert isinstance(array, fw.CudaArray)
    assert (array.shape, array.dtype, array.nbytes, len(array)) == ((4, 3), "float32", 48, 4)
    assert array.device == "cuda:0" and array.writable
    assert array.__dlpack_device__() == (2, 0)
    interface = array.__cuda_array_interface__
    assert interface["typestr"] == "<f4" and interface["shape"] == (4, 3)
    assert "cuda:0" in repr(array)
    with pytest.raises(TypeError, match="on a GPU"):
        np.asarray(array)
    with pytest.raises(TypeError, match="on a GPU"):
        np.asarray(registered)


@pytest.mark.parametrize("exporter", [ByDlpack, ByInterface])
def test_a_write_from_gpu_to_gpu_arrives_with_its_notification(
    cuda: None, pair: Pair, exporter: type[Exporter]
) -> None:
    inbox = pair.far.publish("inbox", pair.far.allocate(COUNT, "float32", kind="cuda:0"))
    source = pair.left.allocate(COUNT, "float32", kind="cuda:0").array
    source.copy_from(counting())
    target = pair.near.lookup("inbox")
    pair.near.write(exporter(source), target, notify=7).wait(30)
    assert pair.far.wait_notification(30).tag == 7
    assert np.array_equal(to_host(inbox.array), counting())


def test_a_write_between_gpu_and_host(cuda: None, pair: Pair) -> None:
    on_gpu = pair.far.publish("gpu", pair.far.allocate(COUNT, "float32", kind="cuda"))
    on_host = pair.far.publish("host", pair.far.allocate(COUNT, "float32"))
    pair.near.write(counting(1), pair.near.lookup("gpu"), notify=1).wait(30)
    assert pair.far.wait_notification(30).tag == 1
    assert np.array_equal(to_host(on_gpu.array), counting(1))
    source = pair.left.allocate(COUNT, "float32", kind="cuda:0").array
    source.copy_from(counting(2))
    pair.near.write(source, pair.near.lookup("host"), notify=2).wait(30)
    assert pair.far.wait_notification(30).tag == 2
    assert np.array_equal(on_host.array, counting(2))


def test_a_part_is_written_where_it_belongs(cuda: None, pair: Pair) -> None:
    inbox = pair.far.publish("inbox", pair.far.allocate(100, "float32", kind="cuda:0"))
    inbox.array.copy_from(np.zeros(100, "float32"))
    target = pair.near.lookup("inbox")
    pair.near.write(np.ones(10, "float32"), target, offset=42).wait(30)
    expected = np.zeros(100, "float32")
    expected[42:52] = 1
    assert np.array_equal(to_host(inbox.array), expected)
    with pytest.raises(fw.OutOfRange):
        pair.near.write(np.ones(10, "float32"), target, offset=91)


def test_reads_in_all_directions(cuda: None, pair: Pair) -> None:
    outbox = pair.left.publish("gpu", pair.left.allocate(COUNT, "float32", kind="cuda:0"))
    outbox.array.copy_from(counting(3))
    on_host = pair.left.publish("host", pair.left.allocate(COUNT, "float32"))
    on_host.array[:] = counting(4)
    assert np.array_equal(pair.far.lookup("gpu").read(timeout=30), counting(3))
    destination = pair.right.allocate(COUNT, "float32", kind="cuda:0").array
    pair.far.lookup("host").read(ByDlpack(destination), timeout=30)
    assert np.array_equal(to_host(destination), counting(4))
    pair.far.lookup("gpu").read(ByInterface(destination), timeout=30)
    assert np.array_equal(to_host(destination), counting(3))


def test_an_alias_is_the_peers_memory(cuda: None, pair: Pair) -> None:
    outbox = pair.left.publish("outbox", pair.left.allocate(COUNT, "float32", kind="cuda:0"))
    outbox.array.copy_from(counting(5))
    alias = pair.far.lookup("outbox").alias()
    assert isinstance(alias, fw.CudaArray) and not alias.writable
    assert np.array_equal(to_host(alias), counting(5))
    outbox.array.copy_from(counting(6))
    assert np.array_equal(to_host(alias), counting(6))
    assert pair.left.stats().leases_held_by_peers == 1
    for destination in (alias, ByDlpack(alias), ByInterface(alias)):
        with pytest.raises(fw.InvalidArgument, match="read-only"):
            pair.far.read(pair.far.lookup("outbox"), destination)
    with pytest.raises(fw.InvalidArgument, match="read-only"):
        alias.copy_from(counting(7))


def test_dlpack_and_the_interface_bring_their_streams(
    double: Double, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.far.publish("inbox", pair.far.allocate(8, "float32", kind="cuda:0"))
    target = pair.near.lookup("inbox")
    source = pair.left.allocate(8, "float32", kind="cuda:0").array
    source.copy_from(counting(0, 8))
    waits = double.calls("cuStreamSynchronize")
    exporter = ByDlpack(source)
    pair.near.write(exporter, target).wait(30)
    assert exporter.streams == [1]
    assert double.calls("cuStreamSynchronize") == waits + 1
    pair.near.write(source[2:4], target).wait(30)
    waits += 1
    assert double.calls("cuStreamSynchronize") == waits + 1, "for a view that is at work"
    alone = pair.left.allocate(8, "float32", kind="cuda:0").array
    pair.near.write(alone[:4], target).wait(30)
    assert double.calls("cuStreamSynchronize") == waits + 1, "nobody else sees it"
    alone.copy_from(source)
    waits += 1
    assert double.calls("cuStreamSynchronize") == waits + 1, "a copy waits as well"
    # No stream: no work is under way.
    pair.near.write(ByInterface(source), target).wait(30)
    assert double.calls("cuStreamSynchronize") == waits + 1
    monkeypatch.setattr(ByInterface, "changes", {"stream": 2})
    pair.near.write(ByInterface(source), target).wait(30)
    assert double.calls("cuStreamSynchronize") == waits + 2


def test_dlpack_says_what_is_read_only(cuda: None, pair: Pair) -> None:
    outbox = pair.left.publish("outbox", pair.left.allocate(8, "float32", kind="cuda:0"))
    alias = pair.far.lookup("outbox").alias()
    for array in (outbox.array, alias):
        assert '"dltensor_versioned"' in repr(array.__dlpack__(max_version=(1, 0)))
        # A library from before read-only arrays.
        assert '"dltensor"' in repr(array.__dlpack__())
        assert as_cuda_array("read", ByDlpack(array)).writable is array.writable
    inbox = pair.near.publish("inbox", pair.near.allocate(8, "float32", kind="cuda:0"))
    outbox.array.copy_from(counting(1, 8))
    pair.far.write(ByOlderDlpack(alias), pair.far.lookup("inbox")).wait(30)
    assert np.array_equal(to_host(inbox.array), counting(1, 8))


def test_copies_of_what_is_no_array_of_the_kind_are_refused(cuda: None, device: fw.Device) -> None:
    array = device.allocate(4, "float32", kind="cuda:0").array
    frozen = np.zeros(4, "float32")
    frozen.flags.writeable = False
    for other in ([1, 2, 3, 4], None, 5, b"1234", np.zeros(4), np.zeros(8, "float32")[::2]):
        with pytest.raises(fw.InvalidArgument, match="copy_to"):
            array.copy_to(other)
        with pytest.raises(fw.InvalidArgument, match="copy_from"):
            array.copy_from(other)
    with pytest.raises(fw.InvalidArgument, match="copy_to: the destination is read-only"):
        array.copy_to(frozen)
    array.copy_from(frozen)
    assert to_host(array).tolist() == [0, 0, 0, 0]


def test_arrays_that_would_need_a_copy_are_refused(
    cuda: None, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.far.publish("inbox", pair.far.allocate((4, 4), "float32", kind="cuda:0"))
    target = pair.near.lookup("inbox")
    source = pair.left.allocate((4, 4), "float32", kind="cuda:0").array
    monkeypatch.setattr(ByInterface, "changes", {"strides": (4, 16)})
    with pytest.raises(fw.InvalidArgument, match="not C-contiguous"):
        pair.near.write(ByInterface(source), target)
    monkeypatch.setattr(ByInterface, "changes", {"typestr": "<f8"})
    with pytest.raises(fw.InvalidArgument, match="dtype float64"):
        pair.near.write(ByInterface(source), target)
    for malformed in (
        *({"shape": v} for v in (None, 4, (-1,), (2**64,), (0, 2**62), (1.5,), (1,) * 33)),
        *({"data": v} for v in (7, (None, False), (-1, False), (2**64, False), ("x", False))),
        *({"strides": v} for v in ((4,), 5)),
        *({"stream": v} for v in ("x", -5, 2**64, float("inf"), float("nan"))),
        *({"typestr": v} for v in (None, 5, "x", "|O")),
    ):
        monkeypatch.setattr(ByInterface, "changes", malformed)
        with pytest.raises(fw.InvalidArgument, match="malformed"):
            pair.near.write(ByInterface(source), target)
    for refused in ({"mask": source}, {"stream": 0}):
        monkeypatch.setattr(ByInterface, "changes", refused)
        with pytest.raises(fw.InvalidArgument, match="a mask, or stream 0"):
            pair.near.write(ByInterface(source), target)
    monkeypatch.setattr(ByInterface, "changes", {"data": (0x1000, False)})
    with pytest.raises(fw.InvalidArgument, match="not in the memory of a CUDA GPU"):
        pair.near.write(ByInterface(source), target)
    with pytest.raises(fw.InvalidArgument, match="CPU"):
        pair.near.send(ByDlpack(source))


def test_a_stream_of_tensors_takes_them_from_a_gpu(cuda: None, pair: Pair) -> None:
    for name, options in (("static", {"shape": COUNT, "dtype": "float32"}), ("dynamic", {})):
        with (
            fw.TensorReceiver(pair.far, name, **options) as receiver,
            fw.TensorSender(pair.near, name) as sender,
        ):
            source = pair.left.allocate(COUNT, "float32", kind="cuda:0").array
            source.copy_from(counting(8))
            sender.send(source).wait(30)
            assert np.array_equal(receiver.receive(30), counting(8))


@pytest.mark.parametrize("fabric", ["tcp"])
def test_over_a_network_the_bytes_pass_through_host_memory(
    cuda: None, make_pair: Callable[..., Pair], fabric: str
) -> None:
    pair = make_pair(fabrics=[fabric])
    inbox = pair.far.publish("inbox", pair.far.allocate(COUNT, "float32"))
    with fw.Device(listen="127.0.0.1:0") as gpu:
        array = gpu.allocate(COUNT, "float32", kind="cuda:0").array
        array.copy_from(counting(9))
        pair.near.write(array, pair.near.lookup("inbox"), notify=3).wait(30)
        assert pair.far.wait_notification(30).tag == 3
        assert np.array_equal(inbox.array, counting(9))
        outbox = pair.right.publish("outbox", pair.right.allocate(COUNT, "float32"))
        outbox.array[:] = counting(10)
        pair.near.lookup("outbox").read(array, timeout=30)
        assert np.array_equal(to_host(array), counting(10))
        assert pair.left.stats().gpu.staged_bytes >= 2 * array.nbytes
    with pytest.raises(fw.Unsupported, match="does not write into the memory of a GPU"):
        pair.far.allocate(8, kind="cuda:0")
    with pytest.raises(fw.Unsupported, match="none of this device's fabrics"):
        pair.left.allocate(8, kind="cuda:0")


def test_a_peer_without_shm_hears_that_it_does_not_reach_the_gpu(cuda: None) -> None:
    with (
        fw.Device(listen="127.0.0.1:0") as owner,
        fw.Device(fabrics=["tcp"]) as other,
    ):
        owner.publish("gpu", owner.allocate(8, "float32", kind="cuda:0"))
        with (
            other.connect(owner.endpoint) as channel,
            pytest.raises(fw.Unsupported, match="on a GPU of the peer"),
        ):
            channel.lookup("gpu")


def test_kinds_that_are_none(cuda: None, device: fw.Device) -> None:
    for kind in ("gpu", "cuda:", "cuda:-1", "cuda:x", "cuda0"):
        with pytest.raises(fw.InvalidArgument, match="not a kind of memory"):
            device.allocate(8, kind=kind)
    with pytest.raises(fw.InvalidArgument, match="there is no cuda:99"):
        device.allocate(8, kind="cuda:99")


def test_memory_of_a_gpu_is_given_back(cuda: None, pair: Pair) -> None:
    before = pair.left.stats().gpu.mapped_bytes
    for _ in range(3):
        inbox = pair.far.publish("inbox", pair.far.allocate(COUNT, "float32", kind="cuda:0"))
        target = pair.near.lookup("inbox")
        pair.near.write(counting(), target).wait(30)
        unit = 2 << 20
        assert pair.left.stats().gpu.mapped_bytes == before + 2 * unit, "mapped here and there"
        assert inbox.nbytes <= unit
        pair.far.publish("inbox", pair.far.allocate(1))
        inbox.close(10)
        del inbox, target
        gc.collect()
    assert pair.left.stats().gpu.mapped_bytes == before


def test_a_closed_region_takes_no_write(cuda: None, pair: Pair) -> None:
    inbox = pair.far.publish("inbox", pair.far.allocate(8, "float32", kind="cuda:0"))
    inbox.array.copy_from(np.zeros(8, "float32"))
    target = pair.near.lookup("inbox")
    inbox.close(10)
    with pytest.raises(fw.FailedPrecondition, match="closed by its owner"):
        pair.near.write(counting(0, 8), target).wait(30)
    assert not to_host(inbox.array).any()


def test_the_steady_state_registers_nothing(cuda: None, pair: Pair) -> None:
    on_host = pair.far.publish("host", pair.far.allocate(COUNT, "float32"))
    source = pair.left.allocate(COUNT, "float32", kind="cuda:0").array
    source.copy_from(counting())
    target = pair.near.lookup("host")
    pair.near.write(source, target).wait(30)
    before = pair.left.stats()
    for _ in range(5):
        pair.near.write(source, target).wait(30)
    after = pair.left.stats()
    assert (after.gpu.pins, after.gpu.mappings) == (before.gpu.pins, before.gpu.mappings)
    assert after.registrations == before.registrations
    assert after.gpu.copies == before.gpu.copies + 5
    assert after.gpu.copied_bytes == before.gpu.copied_bytes + 5 * source.nbytes
    assert before.gpu.pins > 0
    assert on_host.array[1] == 1


def test_a_box_takes_and_gives_arrays_on_a_gpu(cuda: None, device: fw.Device) -> None:
    with (
        fw.box.serve(memory="64M", pool="4M", segment_bytes=4 << 20) as server,
        fw.box.connect(server.endpoint) as client,
    ):
        segment = client.create("weights", COUNT // 4, "float32")
        source = device.allocate(COUNT // 4, "float32", kind="cuda:0")
        source.array.copy_from(counting(1, COUNT // 4))
        segment.write(ByDlpack(source.array))
        segment.accumulate(source)
        destination = device.allocate(COUNT // 4, "float32", kind="cuda:0")
        segment.read(destination.array)
        assert np.array_equal(to_host(destination.array), 2 * counting(1, COUNT // 4))
        with pytest.raises(fw.InvalidArgument, match="on a GPU, and the CPU adds"):
            fw.box.add_scaled(destination.array, counting(0, COUNT // 4), 1.0)


def test_two_gpus_are_told_apart(double: Double, pair: Pair) -> None:
    second = pair.left.allocate(8, "float32", kind="cuda:1").array
    second.copy_from(counting(1, 8))
    assert second.device == "cuda:1"
    assert np.array_equal(to_host(second), counting(1, 8))
    on_host = pair.far.publish("host", pair.far.allocate(8, "float32"))
    pair.near.write(second, pair.near.lookup("host"), notify=1).wait(30)
    assert pair.far.wait_notification(30).tag == 1
    assert np.array_equal(on_host.array, counting(1, 8))
    same = pair.far.publish("same", pair.far.allocate(8, "float32", kind="cuda:1"))
    pair.near.write(second, pair.near.lookup("same")).wait(30)
    assert np.array_equal(to_host(same.array), counting(1, 8))
    pair.far.publish("other", pair.far.allocate(8, "float32", kind="cuda:0"))
    other = pair.near.lookup("other")
    with pytest.raises(fw.Unsupported, match="one side lies on cuda:1, the other on cuda:0"):
        pair.near.write(second, other).wait(30)
    with pytest.raises(fw.Unsupported, match="copy to the other GPU first"):
        second.copy_from(pair.left.allocate(8, "float32", kind="cuda:0").array)


def test_a_map_needs_no_context_on_other_gpus(double: Double) -> None:
    program = """
import ctypes, os, sys
import farwrite as fw
with fw.Device() as device, device.connect(sys.argv[1]) as channel:
    channel.lookup("second").alias()
    library = ctypes.CDLL(os.environ["FARWRITE_CUDA_LIBRARY"])
    print(library.cudaDoubleCalls(b"cuDevicePrimaryCtxRetain"))
"""
    with fw.Device() as owner:
        owner.publish("second", owner.allocate(8, "float32", kind="cuda:1"))
        ran = subprocess.run(
            [sys.executable, "-c", program, owner.endpoint],
            capture_output=True,
            text=True,
            check=True,
        )
    assert ran.stdout.split() == ["1"]
