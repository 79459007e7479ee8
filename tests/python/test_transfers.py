"""Writing, reading and aliasing a peer's arrays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import farwrite as fw
from conftest import Pair
from farwrite.memory.payload import as_payload, byte_offset


def opened(pair: Pair, shape: object, dtype: object) -> tuple[fw.RegisteredArray, fw.RemoteArray]:
    """An array that `near` may write at `far`'s side, and its remote end."""
    inbox = pair.far.publish("inbox", pair.far.allocate(shape, dtype))  # type: ignore[arg-type]
    return inbox, pair.near.lookup("inbox")


def test_shape_and_dtype_travel(pair: Pair) -> None:
    for dtype in ("float32", ">i8", "bool", "complex128", "S7", "datetime64[ns]", "V5"):
        inbox, remote = opened(pair, (3, 5), dtype)
        assert (remote.shape, remote.dtype, remote.nbytes) == (
            inbox.shape,
            inbox.dtype,
            inbox.nbytes,
        )
        assert remote.access == "write"
        assert len(remote) == 3
    record = np.dtype([("at", "<f8"), ("where", "<i2", (2, 3)), ("name", "U4")])
    _, remote = opened(pair, 4, record)
    assert remote.dtype == record


def test_landing_memory_starts_as_zeros(pair: Pair) -> None:
    inbox, _ = opened(pair, 1000, "float64")
    assert not inbox.array.any()


@pytest.mark.parametrize("bytes_", [8, 4096, 100_000, 3 << 20])
def test_a_write_lands_whole(pair: Pair, bytes_: int) -> None:
    inbox, remote = opened(pair, bytes_ // 8, "uint64")
    sent = np.random.default_rng(bytes_).integers(2**63, size=bytes_ // 8, dtype=np.uint64)
    completion = pair.near.write(sent, remote, notify=9)
    completion.wait()
    assert completion.done()
    assert completion.settled()
    assert pair.far.wait_notification(10) == fw.Notification(9, 0, b"")
    np.testing.assert_array_equal(inbox.array, sent)


def test_a_flush_makes_earlier_writes_visible(pair: Pair) -> None:
    inbox, remote = opened(pair, 4, "int64")
    for at in range(4):
        pair.near.write(np.array([at + 1]), remote, offset=at)
    pair.near.flush().wait()
    assert inbox.array.tolist() == [1, 2, 3, 4]


def test_plain_arguments_are_placed_as_the_checks_in_python_place_them(pair: Pair) -> None:
    grid = np.arange(24, dtype="int64").reshape(4, 6)
    sources: list[object] = [
        *(grid, grid[0], grid[:2], grid[:, :1], grid.T, grid[::2], grid.reshape(2, 2, 6)),
        *(np.int64(7), np.array(7), np.empty(0, "int64"), np.empty((0, 6), "int64")),
        *(grid.astype(kind) for kind in (">i8", "uint64", "float64", "int32", "complex64")),
        *(np.ma.masked_array(grid), grid.view(np.recarray), grid.astype("O"), b"12345678"),
        *(bytearray(16), memoryview(grid), grid.astype("m8[s]"), np.array([1], np.longlong)),
    ]
    taken = 0
    for shape in ((4, 6), 24, (2, 2, 6), (6,), (), 0, (3, 0)):
        for dtype in ("int64", ">i8", "uint8"):
            inbox, remote = opened(pair, shape, dtype)
            for source in sources:
                for offset in (0, 1, 6, 23, -1, 2**70, True, np.int64(1), "0", None):
                    inbox.array[...] = 0
                    posted = pair.near.native.write_plain(source, remote.native, offset, None, 0)
                    if posted is None:
                        continue
                    taken += 1
                    array = as_payload("write", source)
                    assert isinstance(array, np.ndarray)
                    place = byte_offset("write", array, remote, offset)  # type: ignore[arg-type]
                    pair.near.flush().wait()
                    landed = inbox.array.tobytes()
                    assert landed[place : place + array.nbytes] == array.tobytes()
                    assert not landed[:place].strip(b"\0")
                    assert not landed[place + array.nbytes :].strip(b"\0")
    assert taken > 50
    for source, dtype in ((grid, "int64"), (grid[0], "int64"), (b"12345678", "uint8")):
        _, remote = opened(pair, (4, 6), dtype)
        assert pair.near.native.write_plain(source, remote.native, 0, 7, 0) is not None
        assert pair.far.wait_notification(10).tag == 7
    destination = np.zeros(24, "int64")
    destination.setflags(write=False)
    pair.left.publish("source", pair.left.allocate(24, "int64"))
    source_ = pair.far.lookup("source")
    assert pair.far.native.read_plain(destination, source_.native, 0, 0) is None
    assert pair.far.native.read_plain(np.empty(24, "int64"), source_.native, 0, 0) is not None
    assert pair.near.native.send_plain(grid.astype("O"), 0, 0) is None
    assert pair.near.native.send_plain(np.ma.masked_array(grid), 0, 0) is None
    assert pair.near.native.send_plain(grid, 0, 0) is not None


def test_an_offset_counts_elements(pair: Pair) -> None:
    inbox, remote = opened(pair, (3, 2), "int32")
    pair.near.write(np.array([7, 8], "int32"), remote, offset=3).wait()
    pair.near.write(np.array([[1, 2]], "int32"), remote).wait()
    pair.near.flush().wait()
    assert inbox.array.tolist() == [[1, 2], [0, 7], [8, 0]]


def test_bytes_and_scalars_and_dates_can_be_written(pair: Pair) -> None:
    inbox, remote = opened(pair, 6, "uint8")
    for at, source in enumerate((b"ab", bytearray(b"cd"), memoryview(b"ef"))):
        pair.near.write(source, remote, offset=2 * at).wait()
    pair.near.flush().wait()
    assert inbox.array.tobytes() == b"abcdef"

    inbox, remote = opened(pair, 2, "float64")
    pair.near.write(np.float64(2.5), remote, offset=1).wait()  # type: ignore[arg-type]
    pair.near.flush().wait()
    assert inbox.array.tolist() == [0.0, 2.5]

    days = np.array(["2026-11-21", "1969-07-20"], "datetime64[D]")
    inbox, remote = opened(pair, 2, days.dtype)
    pair.near.write(days, remote).wait()
    pair.near.flush().wait()
    np.testing.assert_array_equal(inbox.array, days)


def test_an_empty_array_can_be_written(pair: Pair) -> None:
    inbox, remote = opened(pair, 0, "float32")
    pair.near.write(np.empty(0, "float32"), remote, notify=3).wait()
    assert pair.far.wait_notification(10).tag == 3
    assert inbox.array.size == 0


def test_a_registered_array_is_a_source(pair: Pair) -> None:
    inbox, remote = opened(pair, 3, "int64")
    source = pair.left.allocate(3, "int64")
    source.array[:] = [4, 5, 6]
    pair.near.write(source, remote, notify=0).wait()
    pair.far.wait_notification(10)
    assert inbox.array.tolist() == [4, 5, 6]


def test_reads_into_a_new_array_and_into_a_given_one(pair: Pair) -> None:
    source = pair.left.publish("source", pair.left.allocate((2, 3), "int64"))
    source.array[:] = np.arange(6).reshape(2, 3)
    remote = pair.far.lookup("source")
    assert remote.access == "read"
    np.testing.assert_array_equal(remote.read(), source.array)

    row = np.zeros((1, 3), "int64")
    assert remote.read(row, offset=3) is row
    assert row.tolist() == [[3, 4, 5]]

    raw = bytearray(8)
    pair.far.read(pair.far.lookup_bytes("source"), raw, offset=8).wait()
    assert int.from_bytes(raw, "little") == 1


def test_an_alias_is_the_peers_memory(pair: Pair) -> None:
    source = pair.left.publish("source", pair.left.allocate((2, 3), "float32"))
    alias = pair.far.lookup("source").alias()
    source.array[:] = 7
    assert (alias.shape, alias.dtype) == ((2, 3), np.dtype("float32"))
    assert (alias == 7).all()
    stats = pair.far.stats()
    assert (stats.aliases, stats.bytes_aliased) == (1, source.nbytes)
    assert (stats.copies, stats.bytes_read) == (0, 0)


def test_an_alias_cannot_be_written(pair: Pair) -> None:
    pair.left.publish("source", pair.left.allocate(8, "int64"))
    alias = pair.far.lookup("source").alias()
    with pytest.raises(ValueError, match="read-only"):
        alias[0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        alias.setflags(write=True)


def test_a_descriptor_opens_without_a_name(pair: Pair) -> None:
    source = pair.left.allocate((2, 2), "int32")
    source.array[:] = [[1, 2], [3, 4]]
    pair.near.send(source.descriptor).wait()
    descriptor = pair.far.wait_notification(10).message
    assert pair.far.open(descriptor, (2, 2), "int32").read().tolist() == [[1, 2], [3, 4]]
    assert pair.far.open(descriptor).shape == (16,)
    with pytest.raises(fw.InvalidArgument, match="16"):
        pair.far.open(descriptor, 5, "int32")
    with pytest.raises((fw.ProtocolError, fw.VersionMismatch)):
        pair.far.open(b"\xff" * 64)
    with pytest.raises(fw.ProtocolError):
        pair.far.open(descriptor[:-1])


def test_a_descriptor_of_an_earlier_start_is_refused(pair: Pair) -> None:
    endpoint = pair.left.endpoint
    descriptor = pair.left.allocate(8).descriptor
    pair.left.close()
    with fw.Device(listen=endpoint) as again:
        channel = pair.right.connect(again.endpoint)
        with pytest.raises(fw.PeerRestarted):
            channel.open(descriptor)
        channel.close()


def test_a_closed_array_is_not_found(pair: Pair) -> None:
    source = pair.left.allocate(8)
    descriptor = source.descriptor
    source.close()
    source.close()
    assert source.array.size == 8
    with pytest.raises(fw.NotFound) as raised:
        pair.far.open(descriptor)
    assert isinstance(raised.value, LookupError)


def test_access_rights_are_enforced(pair: Pair) -> None:
    pair.left.publish("source", pair.left.allocate(8))
    readable = pair.far.lookup("source")
    # The call raises, because a program may drop the Completion.
    with pytest.raises(fw.PermissionDenied) as raised:
        pair.far.write(bytes(8), readable)
    with pytest.raises(fw.PermissionDenied):
        pair.far.write(np.zeros(8, "uint8"), readable, notify=1)
    assert isinstance(raised.value, PermissionError)
    _, writable = opened(pair, 8, "uint8")
    with pytest.raises(fw.PermissionDenied):
        pair.near.read(writable, bytearray(8))
    with pytest.raises(fw.PermissionDenied):
        pair.near.read(writable, np.zeros(8, "uint8"))
    with pytest.raises(fw.PermissionDenied):
        writable.alias()


def test_counts_transfers(pair: Pair) -> None:
    _, remote = opened(pair, 100, "uint8")
    pair.near.write(bytes(100), remote, notify=1).wait()
    pair.far.wait_notification(10)
    stats = pair.near.stats()
    assert (stats.writes, stats.bytes_written, stats.notifications_sent) == (1, 100, 1)
    assert stats.copies == 1
    assert pair.far.stats().notifications_received == 1


def test_lanes_can_be_picked(make_pair: Callable[..., Pair]) -> None:
    pair = make_pair(lanes=2, pollers=2)
    assert pair.near.peer.lanes == 2
    _, remote = opened(pair, 8, "uint8")
    pair.near.write(bytes(8), remote, notify=1, lane=1).wait()
    assert pair.far.wait_notification(10).lane == 1
    with pytest.raises((fw.InvalidArgument, fw.OutOfRange), match="lane"):
        pair.near.write(bytes(8), remote, lane=2)


class TestBadInput:
    """Every mistake is an error that says what to do."""

    def test_a_non_contiguous_source_is_not_copied_behind_your_back(self, pair: Pair) -> None:
        _, remote = opened(pair, (4, 4), "int64")
        with pytest.raises(fw.InvalidArgument, match="ascontiguousarray"):
            pair.near.write(np.zeros((4, 4), "int64").T[::2], remote)

    def test_the_advice_for_a_destination_with_gaps_fills_it(self, pair: Pair) -> None:
        source = pair.left.publish("source", pair.left.allocate((2, 3), "int64"))
        source.array[:] = [[1, 2, 3], [4, 5, 6]]
        remote = pair.far.lookup("source")
        x = np.zeros((3, 2), "int64").T
        assert not x.flags.c_contiguous
        with pytest.raises(fw.InvalidArgument) as refused:
            pair.far.read(remote, x)
        assert "y = np.empty(x.shape, x.dtype)" in str(refused.value)
        assert "x[...] = y" in str(refused.value)
        y = np.empty(x.shape, x.dtype)
        pair.far.read(remote, y).wait()
        x[...] = y
        assert x.tolist() == [[1, 2, 3], [4, 5, 6]]

    def test_a_mask_is_not_dropped_silently(self, pair: Pair) -> None:
        _, remote = opened(pair, 3, "float32")
        masked = np.ma.masked_array(np.zeros(3, "float32"), mask=[0, 1, 0])
        receiver = fw.TensorReceiver(pair.far, "masked")
        sender = fw.TensorSender(pair.near, "masked")
        for refused in (
            lambda: pair.near.write(masked, remote),
            lambda: pair.near.read(remote, masked),
            lambda: pair.near.send(masked),
            lambda: pair.left.register(masked),
            lambda: sender.send(masked),
        ):
            with pytest.raises(fw.InvalidArgument, match=r"mask.*x\.filled"):
                refused()
        pair.near.write(masked.data, remote).wait()
        sender.close()
        receiver.close()

    def test_a_wrong_dtype_names_both(self, pair: Pair) -> None:
        _, remote = opened(pair, 4, "float32")
        with pytest.raises(fw.InvalidArgument, match=r"float32.*int64"):
            pair.near.write(np.zeros(4, "int64"), remote)

    def test_a_wrong_shape_names_both(self, pair: Pair) -> None:
        _, remote = opened(pair, (4, 3), "float32")
        with pytest.raises(fw.InvalidArgument, match=r"\(4, 3\).*\(3, 4\)"):
            pair.near.write(np.zeros((3, 4), "float32"), remote)

    @pytest.mark.parametrize("offset", [-1, 2, 2**62])
    def test_leaving_the_array_is_out_of_range(self, pair: Pair, offset: int) -> None:
        _, remote = opened(pair, 4, "float32")
        with pytest.raises(fw.OutOfRange, match="4 elements") as raised:
            pair.near.write(np.zeros(3, "float32"), remote, offset=offset)
        assert isinstance(raised.value, IndexError)

    def test_a_read_only_destination_is_refused(self, pair: Pair) -> None:
        pair.left.publish("source", pair.left.allocate(4, "int64"))
        remote = pair.far.lookup("source")
        out = np.zeros(4, "int64")
        out.setflags(write=False)
        with pytest.raises(fw.InvalidArgument, match="read-only"):
            pair.far.read(remote, out)
        with pytest.raises(fw.InvalidArgument, match="read-only"):
            pair.far.read(pair.far.lookup_bytes("source"), bytes(4))  # type: ignore[arg-type]

    @pytest.mark.parametrize("source", [[1, 2], "text", None, 7])
    def test_what_is_no_array_is_refused(self, pair: Pair, source: object) -> None:
        _, remote = opened(pair, 4, "int64")
        with pytest.raises(fw.InvalidArgument, match=type(source).__name__):
            pair.near.write(source, remote)  # type: ignore[arg-type]

    def test_text_is_refused_with_what_to_give(self, pair: Pair) -> None:
        with pytest.raises(fw.InvalidArgument, match=r"^send: str is text, .*; give text.encode\("):
            pair.near.send("text")  # type: ignore[arg-type]

    def test_python_objects_are_refused(self, pair: Pair) -> None:
        _, remote = opened(pair, 4, "uint8")
        with pytest.raises(fw.InvalidArgument, match="Python objects"):
            pair.near.write(np.array([None]), remote)
        with pytest.raises(fw.InvalidArgument, match="Python objects"):
            pair.left.allocate(3, object)

    @pytest.mark.parametrize(("shape", "dtype"), [((-1,), "u1"), ("three", "u1"), (3, "no type")])
    def test_impossible_arrays_are_refused(self, pair: Pair, shape: object, dtype: str) -> None:
        with pytest.raises(fw.InvalidArgument):
            pair.far.allocate(shape, dtype)  # type: ignore[arg-type]

    @pytest.mark.parametrize("tag", [-1, 2**32])
    def test_a_tag_has_32_bits(self, pair: Pair, tag: int) -> None:
        with pytest.raises(fw.InvalidArgument, match="32 bits"):
            pair.near.notify(tag)

    def test_a_region_without_a_description_is_no_array(self, pair: Pair) -> None:
        native = pair.left._native
        raw = native.allocate(10, "host")
        native.publish("raw", raw, "")
        assert pair.far.lookup_bytes("raw").shape == (10,)
        with pytest.raises(fw.ProtocolError, match="lookup_bytes"):
            pair.far.lookup("raw")
