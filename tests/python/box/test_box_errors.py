"""What is wrong is refused with a sentence that says so, and changes nothing."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import farwrite as fw
from farwrite.box.client import open_client


@pytest.fixture
def segment(box: fw.box.Client) -> fw.box.Segment:
    return box.create("w", (2, 3), "float32")


def test_dtype_and_shape_have_to_match(segment: fw.box.Segment) -> None:
    with pytest.raises(fw.InvalidArgument, match=r"'w' has dtype float32 .* dtype float64"):
        segment.write(np.zeros((2, 3)))
    with pytest.raises(fw.InvalidArgument, match=r"shape \(2, 3\) .* shape \(3, 2\)"):
        segment.accumulate(np.zeros((3, 2), "float32"))
    with pytest.raises(fw.InvalidArgument, match="whole rows"):
        segment.write(np.zeros((1, 2), "float32"), start=0)
    with pytest.raises(fw.InvalidArgument, match="'w' has dtype float32"):
        segment.read(np.zeros((2, 3)))
    with pytest.raises(fw.InvalidArgument, match="not C-contiguous"):
        segment.write(np.zeros((3, 2), "float32").T)
    with pytest.raises(fw.InvalidArgument, match="read-only"):
        frozen = np.zeros((2, 3), "float32")
        frozen.flags.writeable = False
        segment.read(frozen)
    assert segment.version == 0


def test_the_count_of_an_array_is_its_own(box: fw.box.Client, segment: fw.box.Segment) -> None:
    ones = np.ones(6, "float32")
    segment.accumulate(ones, count=ones.size)
    segment.axpy(2, ones, segment, count=np.int64(6))
    np.testing.assert_array_equal(segment.read(), np.full((2, 3), 3))
    for call in (
        lambda: segment.accumulate(ones, count=4),
        lambda: segment.axpy(1, ones, segment, count=4),
    ):
        with pytest.raises(fw.InvalidArgument, match="count is 4 and the array has 6 elements"):
            call()


def test_a_range_outside_is_refused(segment: fw.box.Segment) -> None:
    ones = np.ones(2, "float32")
    for call in (
        lambda: segment.write(ones, start=5),
        lambda: segment.accumulate(ones, start=6),
        lambda: segment.fill(1, start=4, count=3),
        lambda: segment.scale(1, start=-1),
        lambda: segment.read(start=7, count=1),
        lambda: segment.read(start=3, count=4),
        lambda: segment.read(np.empty(7, "float32"), start=0),
    ):
        with pytest.raises(fw.OutOfRange):
            call()
    assert segment.version == 0


def test_another_segment_has_to_match(box: fw.box.Client, segment: fw.box.Segment) -> None:
    wide = box.create("wide", 6, "float64")
    short = box.create("short", 4, "float32")
    with pytest.raises(fw.InvalidArgument, match="'wide' has dtype float64"):
        segment.accumulate(wide)
    with pytest.raises(fw.InvalidArgument, match="'short' has 4"):
        segment.copy_from(short)
    with pytest.raises(fw.OutOfRange, match="exceed 'short'"):
        segment.copy_from(short, start=0, source_start=2, count=3)
    with pytest.raises(fw.InvalidArgument, match="y is ndarray"):
        segment.axpy(1, short, np.zeros(6))  # type: ignore[arg-type]


def test_integers_take_whole_numbers(box: fw.box.Client) -> None:
    counts = box.create("counts", 4, "int64")
    for call in (
        lambda: counts.scale(0.5),
        lambda: counts.fill(float("nan")),
        lambda: counts.accumulate(np.ones(4, "int64"), scale=1.5),
    ):
        with pytest.raises(fw.InvalidArgument, match="not a whole number"):
            call()


def test_a_name_is_taken_once(box: fw.box.Client, segment: fw.box.Segment) -> None:
    with pytest.raises(fw.AlreadyExists, match=r"'w' .*non-exclusively"):
        box.create("w", (2, 3), "float32")
    with pytest.raises(fw.InvalidArgument):
        box.create("w", (2, 3), "float64", exclusive=False)
    with pytest.raises(fw.InvalidArgument):
        box.create("w", (3, 2), "float32", exclusive=False)
    with pytest.raises(fw.InvalidArgument):
        box.create("w", (2, 3), "uint32", exclusive=False)


def test_unknown_names_and_keys_are_not_found(box: fw.box.Client) -> None:
    with pytest.raises(fw.NotFound, match="'nothing'"):
        box.attach("nothing", timeout=0)
    with pytest.raises(fw.NotFound):
        box.attach(12345)
    with pytest.raises(fw.InvalidArgument):
        box.attach(1.5)  # type: ignore[arg-type]


def test_a_freed_segment_is_gone_for_everybody(
    box_server: fw.box.Server, box: fw.box.Client, segment: fw.box.Segment
) -> None:
    with box_server.connect() as other:
        theirs = other.attach("w")
        assert theirs.read().sum() == 0
        segment.free()
        for call in (
            theirs.read,
            theirs.free,
            theirs.lease,
            lambda: theirs.version,
            lambda: theirs.fill(1),
            lambda: theirs.wait(5, timeout=30),
            lambda: other.attach(segment.key),
            segment.free,
        ):
            with pytest.raises(fw.NotFound):
                call()
    again = box.create("w", (2, 3), "float32")
    assert again.key != segment.key


def test_a_detached_segment_takes_no_call(segment: fw.box.Segment) -> None:
    segment.detach()
    segment.detach()
    with pytest.raises(fw.FailedPrecondition):
        segment.read()


def test_memory_that_is_used_up_is_an_error_and_nothing_else(box: fw.box.Client) -> None:
    with pytest.raises(fw.ResourceExhausted):
        box.create("large", 1 << 30, "float32")
    small = box.create("small", 1024, "float32")
    assert small.fill(1) == 1
    small.free()


def test_memory_of_freed_segments_is_used_again(box: fw.box.Client) -> None:
    for _ in range(10):
        segment = box.create("w", 4 << 20, "float32")  # 16 of 64 MiB
        segment.fill(1)
        segment.free()


def test_create_says_what_is_missing(box: fw.box.Client) -> None:
    with pytest.raises(fw.InvalidArgument, match="give shape"):
        box.create("w")
    with pytest.raises(fw.InvalidArgument, match="leave these two out"):
        box.create("w", 4, like=np.zeros(4))
    with pytest.raises(fw.InvalidArgument, match="buffers 1"):
        box.create("w", 4, buffers=1)
    with pytest.raises(fw.InvalidArgument):
        box.create("", 4)
    with pytest.raises(fw.InvalidArgument):
        box.create("x" * 256, 4)
    with pytest.raises(fw.InvalidArgument, match="holds Python objects"):
        box.create("w", 4, "O")


def test_another_token_is_refused() -> None:
    with (
        fw.box.serve(memory="8M", pool="2M", token="right") as server,
        pytest.raises(fw.Unauthenticated),
    ):
        fw.box.connect(server.endpoint, token="wrong", timeout=5)


def test_a_box_that_is_not_there_is_named() -> None:
    with pytest.raises((fw.Unavailable, fw.DeadlineExceeded), match=r"127\.0\.0\.1:1"):
        fw.box.connect("127.0.0.1:1", timeout=0.2)


@pytest.mark.parametrize("fabric", ["shm", "tcp"])
def test_a_device_is_no_box_and_connecting_to_it_says_so_at_once(fabric: str) -> None:
    with fw.Device(fabrics=[fabric], name="trainer") as device:
        says = rf"^connect to trainer \({device.endpoint}\): no box server answers there"
        with pytest.raises(fw.Unavailable, match=says):
            fw.box.connect(device.endpoint, timeout=None, fabrics=[fabric])


@pytest.mark.parametrize("fabric", ["shm", "tcp"])
def test_a_box_publishes_no_names_and_a_lookup_there_says_so_at_once(fabric: str) -> None:
    with fw.box.serve(fabrics=[fabric]) as server, fw.Device(fabrics=[fabric]) as device:
        channel = device.connect(server.endpoint)
        with pytest.raises(fw.NotFound, match=r"is a box server.* connect .* as a client of a box"):
            channel.lookup("weights", timeout=None)


def test_keywords_are_checked() -> None:
    with pytest.raises(TypeError, match=r"serve: 'memroy' is no keyword of farwrite\.Device"):
        fw.box.serve(memroy="8M")
    with pytest.raises(TypeError, match="did you mean 'memory'"):
        fw.box.serve(memroy="8M")
    with pytest.raises(TypeError, match=r"connect: 'timout' .* did you mean 'timeout'"):
        fw.box.connect("127.0.0.1:1", timout=1)
    with pytest.raises(fw.InvalidArgument, match="memory: 'much' is not a size"):
        fw.box.serve(memory="much")
    with pytest.raises(fw.InvalidArgument, match="need snapshot"):
        fw.box.serve(restore=True)
    with pytest.raises(fw.InvalidArgument, match="lanes"):
        fw.box.serve(lanes=0)
    for memory in (0, 1, (2 << 20) - 1):  # in which no segment can be created
        with pytest.raises(fw.InvalidArgument, match=f"memory of {memory} bytes .* 2 MiB or more"):
            fw.box.serve(memory=memory)
    for every in (-1, "soon", float("nan"), [60]):
        with pytest.raises(fw.InvalidArgument, match=r"serve: snapshot_every .* such as '60s'"):
            fw.box.serve(snapshot=".", snapshot_every=every)  # type: ignore[arg-type]


@pytest.mark.parametrize("every", ["20ms", np.array(0.02), np.float32(0.02)])
def test_a_time_between_snapshots_is_as_on_the_command_line(tmp_path: Path, every: Any) -> None:
    with (
        fw.box.serve(memory="8M", pool="2M", snapshot=tmp_path, snapshot_every=every) as server,
        server.connect() as client,
    ):
        client.create("w", 4).fill(1)
        end = time.monotonic() + 30
        while server.stats().snapshots == 0:
            assert time.monotonic() < end
            time.sleep(0.01)


def test_a_small_box_needs_no_pool_of_its_size() -> None:
    with fw.box.serve(memory="32M") as server, server.connect() as client:
        assert client.create("w", 1 << 20).fill(1) == 1


def test_a_closed_client_takes_no_call(box_server: fw.box.Server) -> None:
    client = box_server.connect()
    segment = client.create("w", 4, "float32")
    client.close()
    client.close()
    for call in (client.list, segment.read, lambda: segment.fill(1)):
        with pytest.raises((fw.Cancelled, fw.FailedPrecondition)):
            call()


def test_calls_end_when_the_server_closes(box_server: fw.box.Server, box: fw.box.Client) -> None:
    segment = box.create("w", 4, "float32")
    box_server.close()
    with pytest.raises(fw.Error):
        segment.fill(1)
    with pytest.raises(fw.FailedPrecondition):
        box_server.publisher("policy", like=[np.zeros(1)])


def test_a_segment_beyond_the_servers_memory_names_the_servers_option() -> None:
    with (
        fw.box.serve(memory="16M", pool="1M") as server,
        server.connect() as client,
        pytest.raises(fw.ResourceExhausted, match=r"memory of 16777216 bytes has no .*--memory"),
    ):
        client.create("large", (5_000_000,))


@pytest.mark.parametrize("shape", [2**64, (0, 2**62), (2**61, 0), (2**40, 2**40)], ids=str)
def test_a_shape_that_no_array_has_is_refused(box: fw.box.Client, shape: object) -> None:
    with pytest.raises(fw.InvalidArgument, match="larger than an array can be"):
        box.create("w", shape)  # type: ignore[arg-type]
    assert box.list() == []


def test_elements_without_bytes_are_refused(box: fw.box.Client) -> None:
    with pytest.raises(fw.InvalidArgument, match="0 bytes"):
        box.create("w", 3, "S0")
    assert box.list() == []


def test_a_description_that_no_client_can_read_is_refused(box: fw.box.Client) -> None:
    for description in ('{"array":', '{"array": 1, "dtype": "<f4", "shape": [7]}'):
        with pytest.raises(fw.InvalidArgument, match="begins as that of an array"):
            box.create_bytes("w", 4, description)
    assert box.list() == []


def test_a_closed_server_connects_no_client_and_blames_no_peer() -> None:
    server = fw.box.serve(memory="8M", pool="2M")
    server.close()
    started = time.monotonic()
    with pytest.raises(fw.FailedPrecondition, match=r"^connect: the server is closed"):
        server.connect()  # which waits 30 s for a server that starts later
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("thread", ["the main thread", "another"])
def test_a_connect_under_way_ends_when_its_server_closes(
    monkeypatch: pytest.MonkeyPatch, thread: str
) -> None:
    server = fw.box.serve(memory="8M", pool="2M")

    def close_meanwhile(*arguments: Any) -> fw.box.Client:
        server.close()
        return open_client(*arguments)

    def connect() -> None:
        with pytest.raises(fw.FailedPrecondition, match=r"^connect: the server is closed"):
            server.connect()  # which waits 30 s for a server that starts later

    monkeypatch.setattr("farwrite.box.server.open_client", close_meanwhile)
    started = time.monotonic()
    with ThreadPoolExecutor(1) as pool:
        connect() if thread == "the main thread" else pool.submit(connect).result(timeout=60)
    assert time.monotonic() - started < 15


def test_a_folder_of_snapshots_is_a_path(tmp_path: Path) -> None:
    with pytest.raises(fw.InvalidArgument, match="NUL"):
        fw.box.serve(snapshot=f"{tmp_path}\0more")
    for empty in ("", b""):
        with pytest.raises(fw.InvalidArgument, match=r"empty path.* leave snapshot out"):
            fw.box.serve(snapshot=empty)
    with fw.box.serve(memory="16M", snapshot=bytes(tmp_path)) as server:
        server.snapshot()
    assert list(tmp_path.iterdir())


def test_a_folder_of_snapshots_is_created_and_one_to_restore_is_not(tmp_path: Path) -> None:
    for folder in (tmp_path / "no" / "parent", tmp_path / "restored"):
        with pytest.raises(fw.NotFound, match=str(folder)):
            fw.box.serve(memory="8M", snapshot=folder, restore="restored" in str(folder))
        assert not folder.exists()
    with fw.box.serve(memory="8M", snapshot=tmp_path / "new") as server:
        server.close(snapshot=True)
        assert repr(server) == f"<Server of a box at {server.endpoint}, closed>"
    with fw.box.serve(memory="8M", snapshot=tmp_path / "removed") as server:
        assert repr(server) == f"<Server of a box at {server.endpoint}>"
        with server.connect() as client:
            assert repr(client) == f"<Client of the box at {server.endpoint}>"
        assert repr(client) == f"<Client of the box at {server.endpoint}, closed>"
        shutil.rmtree(tmp_path / "removed")
        with pytest.raises(fw.NotFound, match="create the directory"):
            server.snapshot()
        with pytest.raises(fw.NotFound, match="create the directory"):
            server.close(snapshot=True)
    with fw.box.serve(memory="8M", snapshot=tmp_path / "new", restore=True):
        pass


def test_no_more_is_restored_than_the_memory_has_room_for(tmp_path: Path) -> None:
    with fw.box.serve(memory="32M", snapshot=tmp_path) as server, server.connect() as client:
        for number in range(10):
            client.create(f"w{number}", 1 << 18)  # 10 MiB in all
        server.close(snapshot=True)
    with pytest.raises(fw.ResourceExhausted, match=r"memory of 8388608 bytes .*--memory"):
        fw.box.serve(memory="8M", snapshot=tmp_path, restore=True)
    with fw.box.serve(memory="16M", snapshot=tmp_path, restore=True) as server:
        assert server.stats().segments == 10


@pytest.mark.parametrize("pool", ["2M", "0"])
def test_memory_that_the_machine_refuses_is_not_blamed_on_the_limit(pool: str) -> None:
    says = r"NUMA node( at box \(.*\))?: the kernel refuses node 1023"
    with pytest.raises(fw.Error, match=says), fw.box.serve(
        memory="8M", pool=pool, numa_node=1023
    ) as server, server.connect() as client:  # fmt: skip
        client.create("w", 4)


def test_a_server_does_not_replace_snapshots_unasked(tmp_path: Path) -> None:
    with fw.box.serve(memory="64M", pool=0, snapshot=tmp_path) as server:
        with server.connect() as box:
            box.create("precious", 1).fill(7)
        server.snapshot()
    before = sorted(tmp_path.glob("*.farwrite"))
    with pytest.raises(fw.FailedPrecondition, match=r"holds snapshots.*--restore"):
        fw.box.serve(memory="64M", pool=0, snapshot=tmp_path, snapshot_every=0.1)
    assert sorted(tmp_path.glob("*.farwrite")) == before
    with (
        fw.box.serve(memory="64M", pool=0, snapshot=tmp_path, restore=True) as server,
        server.connect() as box,
    ):
        assert box.attach("precious").read().tolist() == [7]


def test_a_pool_that_the_machine_lacks_is_refused_before_a_page_is_taken() -> None:
    pool = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") + (1 << 30)
    with pytest.raises(fw.ResourceExhausted, match="memory available for a pool of"):
        fw.box.serve(memory=pool, pool=pool)


def test_copy_is_on_or_off(box: fw.box.Client) -> None:
    model = {"w": np.ones(1, "float32")}
    box.publisher("model", model).publish(model)
    subscriber = box.subscribe("model")
    for call in (subscriber.latest, lambda **given: asyncio.run(subscriber.latest_async(**given))):
        with pytest.raises(fw.InvalidArgument, match=r"copy .* is neither on nor off"):
            call(copy=np.array([1, 2]))
    with subscriber.latest(copy="off") as found:  # type: ignore[arg-type]
        assert not found["w"].flags.writeable
