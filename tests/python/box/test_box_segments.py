"""Segments of a box: create, attach, read, change, lease, view, cache, free."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import farwrite as fw


def test_a_new_segment_is_zeros_at_version_0(box: fw.box.Client) -> None:
    segment = box.create("w", (3, 4), "float32")
    assert (segment.name, segment.shape, segment.dtype) == ("w", (3, 4), np.dtype("float32"))
    assert (segment.size, segment.nbytes, segment.version, len(segment)) == (12, 48, 0, 3)
    np.testing.assert_array_equal(segment.read(), np.zeros((3, 4), "float32"))


def test_a_segment_can_be_like_an_array(box: fw.box.Client) -> None:
    segment = box.create("w", like=np.ones((2, 5), "int64"))
    assert (segment.shape, segment.dtype) == ((2, 5), np.dtype("int64"))
    assert not segment.read().any()


def test_numpy_views_what_is_here_and_says_how_to_get_the_rest(box: fw.box.Client) -> None:
    segment = box.create("w", 3, "float32")
    segment.write(np.arange(3, dtype="float32"))
    with pytest.raises(TypeError, match=r"x\.read\(\), or pin a version, x\.lease\(\)"):
        np.asarray(segment)
    with segment.lease() as lease:
        pinned = np.asarray(lease)
        assert pinned.tolist() == [0, 1, 2]
        assert not pinned.flags.writeable
        assert np.shares_memory(pinned, lease.array)
        assert np.array(lease, dtype="float64", copy=True).dtype == np.float64
    with pytest.raises(fw.FailedPrecondition):
        np.asarray(lease)
    cached = segment.cached()
    assert np.shares_memory(np.asarray(cached), cached.array)
    assert not np.asarray(cached).flags.writeable


def test_each_change_is_one_version(box: fw.box.Client) -> None:
    segment = box.create("w", 4, "float64")
    assert segment.write(np.arange(4.0)) == 1
    assert segment.accumulate(np.ones(4), scale=0.5) == 2
    assert segment.scale(2) == 3
    np.testing.assert_array_equal(segment.read(), [1, 3, 5, 7])
    assert segment.fill(9) == 4
    assert segment.signal() == 5
    np.testing.assert_array_equal(segment.read(), [9] * 4)
    assert segment.version == 5


def test_changes_of_a_part(box: fw.box.Client) -> None:
    segment = box.create("w", (4, 3), "float32")
    segment.write(np.full((2, 3), 1, "float32"), start=3)
    segment.accumulate(np.full(2, 5, "float32"), start=10)
    segment.scale(3, start=3, count=1)
    segment.fill(7, start=0, count=2)
    expected = np.zeros(12, "float32")
    expected[3:9] = 1
    expected[10:] += 5
    expected[3] *= 3
    expected[:2] = 7
    np.testing.assert_array_equal(segment.read(), expected.reshape(4, 3))
    np.testing.assert_array_equal(segment.read(start=2, count=4), expected[2:6])
    out = np.empty((2, 3), "float32")
    assert segment.read(out, start=6) is out
    np.testing.assert_array_equal(out, expected[6:].reshape(2, 3))


def test_segments_are_sources_of_changes(box: fw.box.Client) -> None:
    x = box.create("x", 6, "float32")
    y = box.create("y", 6, "float32")
    target = box.create("target", 6, "float32")
    x.write(np.arange(6, dtype="float32"))
    y.fill(10)
    target.axpy(2, x, y)
    np.testing.assert_array_equal(target.read(), 2 * np.arange(6) + 10)
    target.axpy(1, np.ones(6, "float32"), y)
    np.testing.assert_array_equal(target.read(), [11] * 6)
    target.accumulate(x, scale=-1)
    np.testing.assert_array_equal(target.read(), 11 - np.arange(6))
    target.copy_from(x)
    np.testing.assert_array_equal(target.read(), np.arange(6))
    target.copy_from(y, start=1, source_start=2, count=2)
    np.testing.assert_array_equal(target.read(), [0, 10, 10, 3, 4, 5])


def test_swap_exchanges_two_segments_and_counts_for_both(box: fw.box.Client) -> None:
    first, second = box.create("first", 3, "int32"), box.create("second", 3, "int32")
    first.fill(1)
    second.fill(2)
    first.swap(second)
    assert (first.read().tolist(), second.read().tolist()) == ([2, 2, 2], [1, 1, 1])
    assert (first.version, second.version) == (2, 2)


def test_swap_of_a_segment_with_itself_is_refused(box: fw.box.Client) -> None:
    segment = box.create("w", 8, "int64")
    segment.write(np.arange(8))
    with pytest.raises(fw.InvalidArgument, match="both sides"):
        segment.swap(segment, start=0, other_start=4, count=3)
    assert (segment.read().tolist(), segment.version) == (list(range(8)), 1)


def test_another_client_attaches_by_name_and_by_key(
    box_server: fw.box.Server, box: fw.box.Client
) -> None:
    made = box.create("w", (2, 2), "float16")
    made.fill(3)
    with box_server.connect() as other:
        for found in (other.attach("w"), other.attach(made.key)):
            assert (found.name, found.key, found.shape) == ("w", made.key, (2, 2))
            assert found.dtype == np.dtype("float16")
            np.testing.assert_array_equal(found.read(), np.full((2, 2), 3))


def test_attach_waits_until_somebody_creates_the_segment(
    box_server: fw.box.Server, box: fw.box.Client
) -> None:
    with box_server.connect() as other:
        later = threading.Timer(0.1, lambda: other.create("late", 1, "float32"))
        later.start()
        assert box.attach("late").shape == (1,)
        later.join()


def test_open_or_create_finds_the_segment_that_is_there(box: fw.box.Client) -> None:
    first = box.create("w", 4, "float32", exclusive=False)
    second = box.create("w", 4, "float32", exclusive=False)
    assert first.key == second.key


def test_the_segments_are_listed(box: fw.box.Client) -> None:
    box_segment = box.create("w", (2, 3), "float32", buffers=3)
    event = box.event("epoch")
    event.signal()
    w, epoch = sorted(box.list(), key=lambda segment: segment.name, reverse=True)
    assert (w.name, w.key, w.dtype, w.shape) == ("w", box_segment.key, "float32", (2, 3))
    assert (w.nbytes, w.version, w.buffers, w.temporary, w.attached) == (24, 0, 3, False, 1)
    assert (epoch.name, epoch.nbytes, epoch.version) == ("epoch", 0, 1)


@pytest.mark.parametrize("dtype", ["bool", "int8", "complex64", "float16", "int64"])
def test_a_list_has_the_dtype_and_the_shape_of_every_array(box: fw.box.Client, dtype: str) -> None:
    box.create("a", (2, 3), dtype)
    box.create_bytes("plain", 6, "x" * 300)
    box.create_bytes("odd", 6, '{"lists": []}')
    listed = {info.name: (info.dtype, info.shape) for info in box.list()}
    assert listed == {"a": (dtype, (2, 3)), "plain": ("bytes", (6,)), "odd": ("bytes", (6,))}


def test_a_temporary_segment_goes_with_its_last_client(
    box_server: fw.box.Server, box: fw.box.Client
) -> None:
    with box_server.connect() as other:
        mine = box.create("w", 1, "float32", temporary=True)
        theirs = other.attach("w")
        mine.detach()
        assert [segment.name for segment in box.list()] == ["w"]
        theirs.detach()
        other.create("answered", 1)  # after the detaching, which has no answer
    assert [segment.name for segment in box.list()] == ["answered"]


def test_posted_changes_are_applied_in_order(box: fw.box.Client) -> None:
    segment = box.create("w", 4096, "float32")
    ones = box.array(4096)
    ones.array[:] = 1
    updates = [segment.post.accumulate(ones, scale=i) for i in range(10)]
    updates.append(segment.post.scale(2))
    assert [update.wait(30) for update in updates] == list(range(1, 12))
    assert all(update.done() for update in updates)
    np.testing.assert_array_equal(segment.read(), np.full(4096, 90))


def test_memory_of_the_client_needs_no_copy(box: fw.box.Client) -> None:
    segment = box.create("w", 65536, "float32")
    own = box.array(65536)
    own.array[:] = 2
    segment.write(own)
    segment.accumulate(own.array)
    assert box.stats().staged_bytes == 0
    segment.write(np.ones(65536, "float32"))
    assert box.stats().staged_bytes == 65536 * 4
    assert box.stats().changes == 3


def test_a_read_says_its_version_and_waits_for_one(
    box_server: fw.box.Server, box: fw.box.Client
) -> None:
    segment = box.create("w", 2, "float32")
    with box_server.connect() as other:
        theirs = other.attach("w")
        later = threading.Timer(0.1, lambda: theirs.fill(5))
        later.start()
        array, version = segment.read_with_version(min_version=1, timeout=30)
        later.join()
    assert (array.tolist(), version) == ([5, 5], 1)
    assert segment.read(consistent="chunk").tolist() == [5, 5]


def test_chunks_have_versions(box: fw.box.Client) -> None:
    segment = box.create("w", (3, 262144), "float32")
    segment.fill(1, start=262144, count=10)
    segment.fill(1, start=262144, count=10)
    segment.fill(1, start=2 * 262144 - 1, count=2)
    assert segment.chunk_versions == [0, 3, 1]
    assert segment.version == 3


def test_a_lease_keeps_its_version(box: fw.box.Client) -> None:
    segment = box.create("w", 4, "float32")
    segment.fill(1)
    with segment.lease() as lease:
        segment.fill(2)
        segment.accumulate(np.ones(4, "float32"))
        assert (lease.version, lease.array.tolist()) == (1, [1] * 4)
        assert segment.read().tolist() == [3] * 4
        assert not lease.array.flags.writeable
    with pytest.raises(fw.FailedPrecondition, match="has ended"):
        lease.array  # noqa: B018
    assert box.stats().leases == 1


def test_an_array_of_a_lease_outlives_it(box: fw.box.Client) -> None:
    segment = box.create("w", 4, "float32")
    segment.fill(1)
    with segment.lease() as lease:
        kept = lease.array
    for value in range(2, 10):
        segment.fill(value)
    assert kept.tolist() == [1] * 4


def test_a_copy_knows_whether_it_is_stale(box: fw.box.Client) -> None:
    segment = box.create("w", 4, "float32")
    cached = segment.cached()
    array = cached.array
    assert (cached.version, cached.stale, array.tolist()) == (0, False, [0] * 4)
    assert cached.refresh() is False
    segment.fill(1)
    assert (cached.stale, array.tolist()) == (True, [0] * 4)
    assert cached.refresh() is True
    assert (cached.version, cached.stale, array.tolist()) == (1, False, [1] * 4)
    with pytest.raises(ValueError, match="read-only"):
        array[:] = 2


def test_a_view_is_live_over_shm_only(box: fw.box.Client) -> None:
    segment = box.create("w", 4, "float32")
    if box.server.fabric == "tcp":
        with pytest.raises(fw.Unsupported):
            segment.view()
        return
    view = segment.view()
    segment.accumulate(np.ones(4, "float32"))
    assert view.tolist() == [1] * 4
    assert not view.flags.writeable


def test_counts_of_the_server(box_server: fw.box.Server, box: fw.box.Client) -> None:
    segment = box.create("w", 256, "float32")
    segment.fill(1)
    segment.write(np.zeros(256, "float32"))
    with segment.lease():
        stats = box_server.stats()
        # Over tcp a lease is a copy, and the server's buffer may be free again.
        assert (stats.clients, stats.segments, stats.leases_granted) == (1, 1, 1)
    assert stats.changes == 2
    assert stats.bytes_changed == 2048
    assert stats.segment_bytes >= 1024
    assert "farwrite_" in box_server.metrics()


def test_a_description_is_for_those_who_attach_a_segment(
    box_server: fw.box.Server, box: fw.box.Client
) -> None:
    kept = box.create("s", (2,), "float32", description="für alle")
    assert kept.dtype == np.float32
    with box_server.connect() as other:
        assert other.attach("s").description.decode() == "für alle"
    with pytest.raises(fw.InvalidArgument, match="int8 has no room for a description"):
        box.create("t", (2,), "int8", description="no")


def test_each_object_says_what_it_is_and_how_it_has_ended(box: fw.box.Client) -> None:
    weights, event = box.create("w", (2, 3), "float32"), box.event("news")
    attached, watch = box.attach("w"), weights.on_update(print)
    assert repr(weights.updates()) == "<Updates of <Segment 'w' float32 (2, 3)> after version 0>"
    assert [repr(each) for each in (attached, event, watch)] == [
        "<Segment 'w' float32 (2, 3)>", "<Event 'news'>", "<Watch of 'w'>",
    ]  # fmt: skip
    attached.detach()
    watch.close()
    weights.free()
    event.free()
    assert [repr(each) for each in (attached, weights, event, watch)] == [
        "<Segment 'w' float32 (2, 3), detached>",
        "<Segment 'w' float32 (2, 3), freed>",
        "<Event 'news', freed>",
        "<Watch of 'w', closed>",
    ]
    weights.detach()
    assert repr(weights).endswith(", freed>")
