"""Faults of GPU memory: errors of the driver, deaths of peers, forks, arrays that are dropped."""

from __future__ import annotations

import gc
import os
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest

import farwrite as fw
from conftest import Link, Pair, connected
from cuda_double import Double
from farwrite.memory.cuda import as_cuda_array
from gpu_arrays import COUNT, ByDlpack, counting, to_host
from processes import PeerState
from warm_python import run_python


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
    ran = run_python("-c", program, environment={**os.environ, **settings})
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


@contextmanager
def paused_until(double: Double, call: str) -> Iterator[None]:
    """No byte moves before the driver's function is called, so that no copy ends before it."""
    before = double.calls(call)
    double.pause()

    def resume_at_call() -> None:
        deadline = time.monotonic() + 30
        while double.calls(call) == before and time.monotonic() < deadline:
            time.sleep(0.001)
        double.resume()

    with ThreadPoolExecutor(1) as pool:
        resumed = pool.submit(resume_at_call)
        yield
        resumed.result()


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
    with (
        paused_until(double, call),
        pytest.raises(fw.Unavailable, match=call.removesuffix("_v2")),
    ):
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
    ran = run_python("-c", program, environment={**os.environ, "CUDA_DOUBLE_FAIL": f"{call}=999"})
    assert ran.returncode == 0, ran.stderr
    first, second = ran.stdout.splitlines()
    assert f"{call.removesuffix('_v2')} failed" in first
    assert second == "done"


@pytest.mark.parametrize("call", ["cuDriverGetVersion", "cuDeviceGetCount"])
def test_a_driver_that_cannot_be_asked_is_an_error(double: Double, call: str) -> None:
    program = "import farwrite as fw; fw.Device().allocate(8, kind='cuda')"
    ran = run_python("-c", program, environment={**os.environ, "CUDA_DOUBLE_FAIL": f"{call}=999"})
    assert f"{call} failed" in ran.stderr.splitlines()[-1]


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


def test_another_librarys_view_keeps_the_memory_mapped(double: Double, pair: Pair) -> None:
    outbox = pair.left.publish("outbox", pair.left.allocate(COUNT, "float32", kind="cuda:0"))
    outbox.array.copy_from(counting())
    remote = pair.far.lookup("outbox")
    exporter = ByDlpack(remote.alias())
    view = as_cuda_array("read", exporter)
    unmapped = double.calls("cuMemUnmap")
    del exporter, remote
    assert double.calls("cuMemUnmap") == unmapped
    assert pair.far.stats().leases_held == 1
    del view
    assert double.calls("cuMemUnmap") == unmapped + 1
    assert pair.far.stats().leases_held == 0
