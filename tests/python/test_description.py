"""What a peer says about an array is checked before it is believed."""

from __future__ import annotations

import json

import numpy as np
import pytest

import farwrite as fw
from conftest import Pair
from farwrite.memory.description import (
    MAX_DIMENSIONS,
    checked_dtype,
    describe,
    dtype_from_text,
    dtype_to_text,
    parse,
)


def _placed(fields: object, offsets: object, itemsize: object) -> bytes:
    dtype = {"fields": fields, "offsets": offsets, "itemsize": itemsize}
    return json.dumps({"array": 1, "dtype": dtype, "shape": [1]}).encode()


@pytest.mark.parametrize(
    "dtype",
    [
        "<f4",
        ">i2",
        "bool",
        "S0",
        "U3",
        "M8[us]",
        [("a", "<f4"), ("b", ">u2", (2, 3))],
        [("outer", [("inner", "<i8")]), ("z", "?")],
        {"names": ["x"], "formats": ["<i4"], "offsets": [4], "itemsize": 16},
    ],
)
def test_comes_back_as_it_went(dtype: object) -> None:
    kind = checked_dtype("describe", dtype)  # type: ignore[arg-type]
    text = describe((2, 3), kind).encode()
    assert parse(text, 1 << 20, "name") == ((2, 3), kind)


PLACED = {
    "out of order": {"names": ["a", "b"], "formats": ["<i4", "<i4"], "offsets": [4, 0]},
    "overlapping": {"names": ["low", "all"], "formats": ["<i4", "<i8"], "offsets": [0, 0]},
    "with a gap": {
        "names": ["a", "b"],
        "formats": ["u1", "<i4"],
        "offsets": [8, 2],
        "itemsize": 24,
    },
    "with titles": {
        "names": ["a", "b"],
        "formats": [("<i2", (2, 3)), [("x", "<f4"), ("y", "M8[us]")]],
        "offsets": [12, 0],
        "titles": ["First", None],
    },
    "inside another": [
        ("inner", {"names": ["a", "b"], "formats": ["<i4", "<i4"], "offsets": [4, 0]}, (2,)),
        ("z", "?"),
    ],
}
"""Structured types whose fields NumPy has no list for."""


@pytest.mark.parametrize("given", PLACED.values(), ids=PLACED.keys())
def test_fields_arrive_where_they_are(pair: Pair, given: object) -> None:
    dtype = np.dtype(given)  # type: ignore[call-overload]
    size = 3 * dtype.itemsize
    values = np.arange(size, dtype=np.uint8).view(dtype)  # bytes between fields are moved as well
    assert dtype_from_text(dtype_to_text(dtype)) == dtype
    inbox = pair.far.allocate(3, dtype)
    pair.far.publish("inbox", inbox)
    remote = pair.near.lookup("inbox")
    assert remote.dtype == dtype
    pair.near.write(values, remote, notify=1).wait(5)
    pair.far.wait_notification(5)
    assert inbox.array.tobytes() == values.tobytes()
    pair.near.send(values).wait(5)
    assert pair.far.wait_notification(5).message == values.tobytes()
    pair.right.publish("outbox", pair.right.allocate(3, dtype)).array[...] = values
    out = np.zeros(3, dtype)
    pair.near.read(pair.near.lookup("outbox"), out).wait(5)
    np.testing.assert_array_equal(out, values)
    with (
        fw.TensorReceiver(pair.far, "fields") as receiver,
        fw.TensorSender(pair.near, "fields") as sender,
    ):
        sender.send(values).wait(5)
        received = receiver.receive(5)
        assert received.dtype == dtype
        np.testing.assert_array_equal(received, values)
        del received


@pytest.mark.parametrize(
    "given",
    [
        ("<f4", (2,)),
        {"names": ["a"], "formats": ["<i4"], "titles": [(1,)]},
        {"names": ["a", "b"], "formats": ["<i4", "<i4"], "offsets": [4, 0], "titles": [1, 2]},
    ],
)
def test_what_a_peer_cannot_rebuild_is_refused(given: object) -> None:
    dtype = np.dtype(given)  # type: ignore[call-overload]
    with pytest.raises(fw.InvalidArgument, match="cannot be described to a peer; allocate 'uint8'"):
        checked_dtype("describe", dtype)


def test_columns_of_a_table_can_be_sent_in_any_order(pair: Pair) -> None:
    table = np.zeros(4, [("id", "<i8"), ("x", "<f4"), ("y", "<f4")])
    table["id"], table["y"] = range(4), 0.5
    chosen = table[["y", "id"]]  # a view: its offsets are 12 and 0
    target = pair.far.allocate(4, chosen.dtype)
    pair.far.publish("columns", target)
    pair.near.write(chosen, pair.near.lookup("columns"), notify=1).wait(5)
    pair.far.wait_notification(5)
    np.testing.assert_array_equal(target.array, chosen)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"7",
        b"{}",
        b'{"array": 2, "dtype": "<f4", "shape": [1]}',
        b'{"array": 1, "dtype": "<f4"}',
        b'{"array": 1, "dtype": "O", "shape": [1]}',
        b'{"array": 1, "dtype": "|O", "shape": [1]}',
        b'{"array": 1, "dtype": "nonsense", "shape": [1]}',
        b'{"array": 1, "dtype": 4, "shape": [1]}',
        b'{"array": 1, "dtype": [["x"]], "shape": [1]}',
        b'{"array": 1, "dtype": [[7, "<f4"]], "shape": [1]}',
        b'{"array": 1, "dtype": "<f4", "shape": 4}',
        b'{"array": 1, "dtype": "<f4", "shape": [-1]}',
        b'{"array": 1, "dtype": "<f4", "shape": [true]}',
        b'{"array": 1, "dtype": "<f4", "shape": [1.5]}',
        b'{"array": 1, "dtype": "<f4", "shape": [4611686018427387904, 4]}',
        b'{"array": 1, "dtype": "<f4", "shape": [26]}',
        json.dumps({"array": 1, "dtype": "<f4", "shape": [1] * 33}).encode(),
        b'{"array": 1, "dtype": "<f4", "shape": [0, 4611686018427387904]}',
        b'{"array": 1, "dtype": "|V0", "shape": [18446744073709551616]}',
        b'{"array": 1, "dtype": ' + b"[" * 900,
        b'{"array": 1, "shape": [1], "dtype": {}}',
        _placed([], None, 8),
        _placed([["a", "<i4"]], [0], 2),
        _placed([["a", "<i4"]], [-4], 8),
        _placed([["a", "<i4"]], [1 << 40], 1 << 41),
        _placed([["a", "<i4"]], [True], 8),
        _placed([["a", "<i4"]], [], 8),
        _placed([["a", "<i4"], ["a", "<i4"]], [0, 4], 8),
        _placed([["a", "O"]], [0], 8),
        _placed([["a", "<i4", [2], [2]]], [0], 8),
        _placed([["a", "<i4", 2]], [0], 8),
        _placed([["a", "<i4", [-1]]], [0], 8),
        _placed([["a", "<i4", [1 << 62, 4]]], [0], 8),
        _placed([[["t", "a", "b"], "<i4"]], [0], 8),
        _placed([[7, "<i4"]], [0], 8),
        _placed([[[["t"], "a"], "<i4"]], [0], 8),
        _placed(7, [0], 8),
    ],
)
def test_nonsense_is_a_protocol_error(text: bytes) -> None:
    with pytest.raises(fw.ProtocolError, match="'name'"):
        parse(text, 100, "name")


def test_what_is_published_can_be_looked_up(pair: Pair) -> None:
    array = pair.right.publish("array", pair.right.allocate((1,) * MAX_DIMENSIONS, "u1"))
    assert pair.near.lookup("array", 20).shape == array.shape


def test_more_dimensions_than_peers_can_view_are_refused_when_publishing(pair: Pair) -> None:
    array = pair.right.allocate((1,) * 60, "u1")
    for publish in (pair.right.publish, pair.far.publish):
        with pytest.raises(fw.InvalidArgument, match=r"60 dimensions.*32.*reshape"):
            publish("array", array)


def test_types_a_peer_could_not_rebuild_are_refused() -> None:
    with pytest.raises(fw.InvalidArgument):
        checked_dtype("describe", np.dtype(("<i4", (2,))))
