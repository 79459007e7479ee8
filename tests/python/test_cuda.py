"""Arrays on GPUs: allocation, transfers, aliases, streams, errors. On a test double of the driver,
whose memory the CPU cannot read and whose copies are late; with FARWRITE_TEST_GPU=1 on a GPU.
"""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import numpy as np
import pytest

import farwrite as fw
from conftest import Link, Pair, connected
from cuda_double import REAL, Double, library
from processes import PeerState

COUNT = 3 << 20
"""Float32 elements: 12 MiB, several pieces of a copy."""


@pytest.fixture(scope="session")
def driver() -> Double | None:
    """The double, opened in this process; None with a real driver."""
    if not REAL:
        os.environ["FARWRITE_CUDA_LIBRARY"] = str(library())
        os.environ["CUDA_DOUBLE_DELAY_US"] = "200"
        os.environ["CUDA_DOUBLE_GPUS"] = "2"
    with fw.Device(listen="127.0.0.1:0") as device:
        device.allocate(1, kind="cuda:0")  # the driver keeps descriptors of its own
    return None if REAL else Double(library())


@pytest.fixture
def double(driver: Double | None) -> Iterator[Double]:
    if driver is None:
        pytest.skip("needs the test double: FARWRITE_TEST_GPU is set")
    yield driver
    driver.resume()
    driver.fail("")


@pytest.fixture
def cuda(driver: Double | None) -> None:
    """A driver that was opened."""


def counting(start: int = 0, count: int = COUNT) -> np.ndarray[Any, Any]:
    return np.arange(start, start + count, dtype="float32")


def to_host(array: fw.CudaArray) -> np.ndarray[Any, Any]:
    copied = np.empty(array.shape, array.dtype)
    array.copy_to(copied)
    return copied


class Exporter:
    """An array of another library: DLPack, or __cuda_array_interface__, or both."""

    def __init__(self, array: fw.CudaArray) -> None:
        self.array = array
        self.streams: list[Any] = []


class ByDlpack(Exporter):
    def __dlpack__(self, *, stream: Any = None, **options: Any) -> Any:
        self.streams.append(stream)
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


class ByInterface(Exporter):
    changes: ClassVar[dict[str, Any]] = {}

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self.array.__cuda_array_interface__, **self.changes}


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
    with pytest.raises(fw.InvalidArgument, match="read-only"):
        pair.far.read(pair.far.lookup("outbox"), alias)
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
    # No stream: no work is under way.
    pair.near.write(ByInterface(source), target).wait(30)
    assert double.calls("cuStreamSynchronize") == waits + 1
    monkeypatch.setattr(ByInterface, "changes", {"stream": 2})
    pair.near.write(ByInterface(source), target).wait(30)
    assert double.calls("cuStreamSynchronize") == waits + 2


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
    for malformed in ({"shape": None}, {"data": 7}, {"strides": (4,)}, {"stream": "x"}):
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


@pytest.mark.parametrize(
    "call",
    [
        "cuMemGetAllocationGranularity",
        "cuMemCreate",
        "cuMemAddressReserve",
        "cuMemMap",
        "cuMemSetAccess",
    ],
)
def test_a_failed_allocation_leaves_nothing(double: Double, device: fw.Device, call: str) -> None:
    double.fail(f"{call}=2")
    with pytest.raises(fw.ResourceExhausted, match=call):
        device.allocate(8, kind="cuda:0")
    double.fail("")
    device.allocate(8, kind="cuda:0")


def alias_and_write_one_more(state: PeerState) -> None:
    alias = state.channel.lookup("outbox").alias()
    mine = state.device.allocate(alias.shape, alias.dtype, kind="cuda:0").array
    mine.copy_from(to_host(alias) + 1)
    state.channel.write(mine, state.channel.lookup("inbox"), notify=1).wait(30)
    state.kept.update(alias=alias, mine=mine)


def test_another_process_aliases_and_writes(cuda: None, link: Link) -> None:
    outbox = link.device.publish("outbox", link.device.allocate(COUNT, "float32", kind="cuda:0"))
    outbox.array.copy_from(counting())
    inbox = link.channel.publish("inbox", link.channel.allocate(COUNT, "float32", kind="cuda:0"))
    link.peer.run(alias_and_write_one_more)
    assert link.channel.wait_notification(30).tag == 1
    assert np.array_equal(to_host(inbox.array), counting(1))
    # Its maps and its lease end with it, and nothing of it lands any more.
    link.peer.kill()
    with pytest.raises(fw.PeerDead):
        link.channel.wait_notification(30)
    inbox.close(10)
    assert np.array_equal(to_host(inbox.array), counting(1))
    assert np.array_equal(to_host(outbox.array), counting())


def publish_and_keep(state: PeerState) -> None:
    array = state.channel.publish("mine", state.channel.allocate(COUNT, "float32", kind="cuda:0"))
    outbox = state.device.publish("outbox", state.device.allocate(COUNT, "float32", kind="cuda:0"))
    outbox.array.copy_from(counting(7))
    state.kept.update(array=array, outbox=outbox)


def test_an_alias_outlives_its_owner(cuda: None, link: Link) -> None:
    link.peer.run(publish_and_keep)
    alias = link.channel.lookup("outbox").alias()
    target = link.channel.lookup("mine")
    link.peer.kill()
    with pytest.raises(fw.PeerDead):
        link.channel.wait_notification(30)
    assert np.array_equal(to_host(alias), counting(7))
    with pytest.raises(fw.PeerDead):
        link.channel.write(counting(), target).wait(30)


def test_memory_of_a_gpu_is_given_back(cuda: None, pair: Pair) -> None:
    before = pair.left.stats().gpu.mapped_bytes
    for _ in range(3):
        inbox = pair.far.publish("inbox", pair.far.allocate(COUNT, "float32", kind="cuda:0"))
        target = pair.near.lookup("inbox")
        pair.near.write(counting(), target).wait(30)
        assert pair.left.stats().gpu.mapped_bytes == before + 2 * inbox.nbytes
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


def test_an_array_that_is_dropped_lives_until_its_copy_is_over(double: Double, pair: Pair) -> None:
    inbox = pair.far.publish("inbox", pair.far.allocate(COUNT, "float32", kind="cuda:0"))
    target = pair.near.lookup("inbox")
    source = pair.left.allocate(COUNT, "float32", kind="cuda:0")
    source.array.copy_from(counting(4))
    double.pause()
    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(lambda array: pair.near.write(array, target, notify=1), source.array)
        source.close()
        del source
        gc.collect()
        assert pair.far.try_notification() is None
        double.resume()
        written.result(30).wait(30)
    assert pair.far.wait_notification(30).tag == 1
    assert np.array_equal(to_host(inbox.array), counting(4))


def test_a_full_gpu_is_an_error_and_nothing_is_lost(double: Double, device: fw.Device) -> None:
    with pytest.raises(fw.ResourceExhausted, match="cuMemCreate failed: CUDA_ERROR_OUT_OF_MEMORY"):
        device.allocate(8 << 30, kind="cuda:0")
    device.allocate(8 << 20, kind="cuda:0")


@pytest.mark.parametrize(
    "call",
    [
        "cuMemImportFromShareableHandle",
        "cuMemAddressReserve",
        "cuMemMap",
        "cuMemSetAccess",
    ],
)
def test_a_map_that_fails_can_be_tried_again(double: Double, pair: Pair, call: str) -> None:
    outbox = pair.left.publish("outbox", pair.left.allocate(COUNT, "float32", kind="cuda:0"))
    outbox.array.copy_from(counting())
    double.fail(f"{call}=2")
    with pytest.raises(fw.ResourceExhausted, match=call):
        pair.far.lookup("outbox")
    double.fail("")
    assert np.array_equal(to_host(pair.far.lookup("outbox").alias()), counting())


def test_memory_that_cannot_be_handed_over_is_not_found(double: Double, pair: Pair) -> None:
    outbox = pair.left.publish("outbox", pair.left.allocate(COUNT, "float32", kind="cuda:0"))
    outbox.array.copy_from(counting())
    double.fail("cuMemExportToShareableHandle=999")
    with pytest.raises(fw.NotFound, match="no such memory"):
        pair.far.lookup("outbox")
    assert np.array_equal(to_host(pair.far.lookup("outbox").alias()), counting())


def test_a_refused_pin_is_slower_and_no_error(
    double: Double, make_pair: Callable[..., Pair], capfd: pytest.CaptureFixture[str]
) -> None:
    pair = make_pair()
    on_host = pair.far.publish("host", pair.far.allocate(COUNT, "float32"))
    source = pair.left.allocate(COUNT, "float32", kind="cuda:0").array
    source.copy_from(counting())
    pins = pair.left.stats().gpu.pins
    double.fail("cuMemHostRegister_v2=1")
    pair.near.write(source, pair.near.lookup("host"), notify=1).wait(30)
    assert pair.far.wait_notification(30).tag == 1
    assert np.array_equal(on_host.array, counting())
    assert pair.left.stats().gpu.pins == pins
    assert "GPUs copy slower" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"FARWRITE_CUDA_LIBRARY": "/nowhere/libcuda.so.1"}, "Unavailable.*cannot be opened"),
        ({"FARWRITE_CUDA_LIBRARY": "libm.so.6"}, "Unavailable.*has no cuInit.*too old"),
        ({"CUDA_DOUBLE_VERSION": "11080"}, "Unavailable.*supports CUDA 11.8: it is too old"),
        ({"CUDA_DOUBLE_GPUS": "0"}, "Unavailable.*cuInit failed: CUDA_ERROR_NO_DEVICE"),
        ({"CUDA_DOUBLE_ATTRIBUTES": "103=0"}, "Unsupported.*cannot share the memory of cuda:0"),
        ({"CUDA_DOUBLE_FAIL": "cuDevicePrimaryCtxRetain=2"}, "ResourceExhausted.*PrimaryCtxRetain"),
    ],
)
def test_a_driver_that_cannot_be_used_is_named(
    double: Double, settings: dict[str, str], message: str
) -> None:
    program = "import farwrite as fw; fw.Device().allocate(8, kind='cuda')"
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    assert re.search(message, ran.stderr.splitlines()[-1])


def test_a_forked_child_leaves_the_driver_alone(double: Double, device: fw.Device) -> None:
    registered = device.allocate(8, "float32", kind="cuda:0")
    child = os.fork()
    if child == 0:
        try:
            with pytest.raises(fw.Forked):
                device.allocate(8, kind="cuda:0")
            with fw.Device() as left, fw.Device() as right:
                near, far = connected(left, right)
                inbox = far.publish("inbox", far.allocate(8, "float32"))
                near.write(counting(1, 8), near.lookup("inbox")).wait(30)
                assert inbox.array[0] == 1
                with pytest.raises(fw.Forked):
                    left.allocate(8, kind="cuda:0")
                for use in (
                    lambda: near.write(registered.array, near.lookup("inbox")),
                    lambda: registered.array.copy_from(counting(0, 8)),
                    lambda: to_host(registered.array),
                ):
                    with pytest.raises(fw.Forked):
                        use()
            del registered
            gc.collect()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    registered.array.copy_from(counting(0, 8))


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


@pytest.mark.parametrize(
    "call",
    [
        "cuCtxPushCurrent_v2",
        "cuPointerGetAttributes",
        "cuStreamSynchronize",
        "cuMemcpyAsync",
        "cuEventRecord",
        "cuEventQuery",
        "cuEventSynchronize",
    ],
)
def test_a_call_that_fails_in_a_transfer_is_an_error_once(
    double: Double, pair: Pair, call: str
) -> None:
    inbox = pair.far.publish("inbox", pair.far.allocate(8, "float32", kind="cuda:0"))
    target = pair.near.lookup("inbox")
    source = ByDlpack(pair.left.allocate(8, "float32", kind="cuda:0").array)
    source.array.copy_from(counting(3, 8))
    gc.collect()
    double.fail(f"{call}=999")
    with pytest.raises(fw.Unavailable, match=call.removesuffix("_v2")):
        pair.near.write(source, target, notify=1).wait(30)
    pair.near.write(source, target, notify=2).wait(30)
    assert pair.far.wait_notification(30).tag == 2
    assert np.array_equal(to_host(inbox.array), counting(3, 8))


@pytest.mark.parametrize(
    "call",
    [
        "cuDeviceGet",
        "cuDeviceGetName",
        "cuDeviceGetUuid_v2",
        "cuDeviceGetPCIBusId",
        "cuDeviceGetAttribute",
        "cuDevicePrimaryCtxRetain",
        "cuEventCreate",
        "cuStreamCreate",
    ],
)
def test_a_call_that_fails_at_the_first_use_is_an_error_once(double: Double, call: str) -> None:
    program = """
import numpy as np, farwrite as fw
with fw.Device() as device:
    for _ in range(2):
        try:
            device.allocate(8, "float32", kind="cuda").array.copy_from(np.zeros(8, "float32"))
            print("done")
        except fw.Unavailable as error:
            print(error)
"""
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "CUDA_DOUBLE_FAIL": f"{call}=999"},
        capture_output=True,
        text=True,
        check=True,
    )
    first, second = ran.stdout.splitlines()
    assert f"{call.removesuffix('_v2')} failed" in first
    assert second == "done"


@pytest.mark.parametrize("call", ["cuDriverGetVersion", "cuDeviceGetCount"])
def test_a_driver_that_cannot_be_asked_is_an_error(double: Double, call: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", "import farwrite as fw; fw.Device().allocate(8, kind='cuda')"],
        env={**os.environ, "CUDA_DOUBLE_FAIL": f"{call}=999"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"{call} failed" in ran.stderr.splitlines()[-1]


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


def write_for_ever(state: PeerState) -> None:
    target = state.channel.lookup("inbox")
    mine = state.device.allocate(COUNT, "float32", kind="cuda:0").array
    state.channel.notify(1).wait(30)
    while True:
        state.channel.write(mine, target).wait(30)


def test_a_peer_that_is_killed_in_a_write_leaves_memory_that_can_be_used(
    cuda: None, link: Link
) -> None:
    inbox = link.channel.publish("inbox", link.channel.allocate(COUNT, "float32", kind="cuda:0"))
    link.peer.start(write_for_ever)
    assert link.channel.wait_notification(30).tag == 1
    time.sleep(0.05)
    link.peer.kill()
    with pytest.raises(fw.PeerDead):
        link.channel.wait_notification(30)
    inbox.close(10)
    inbox.array.copy_from(counting())
    assert np.array_equal(to_host(inbox.array), counting()), "no byte of the dead lands"


def test_a_view_that_is_dropped_is_unmapped_behind_its_kernels(double: Double, pair: Pair) -> None:
    outbox = pair.left.publish("outbox", pair.left.allocate(COUNT, "float32", kind="cuda:0"))
    outbox.array.copy_from(counting())
    remote = pair.far.lookup("outbox")
    alias = remote.alias()
    waits = double.calls("cuCtxSynchronize")
    unmapped = double.calls("cuMemUnmap")
    del alias, remote  # no cycle keeps them
    assert double.calls("cuMemUnmap") == unmapped + 1
    assert double.calls("cuCtxSynchronize") == waits + 1
