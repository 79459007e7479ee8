"""What a peer says about an array is checked before it is believed."""

from __future__ import annotations

import json

import numpy as np
import pytest

import farwrite as fw
from conftest import Pair
from farwrite.memory.description import MAX_DIMENSIONS, checked_dtype, describe, parse


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


@pytest.mark.parametrize("offsets", [[4, 0], [0, 2]], ids=["out of order", "overlapping"])
def test_fields_that_numpy_cannot_describe_are_refused(pair: Pair, offsets: list[int]) -> None:
    dtype = np.dtype({"names": ["a", "b"], "formats": ["<i4", "<i4"], "offsets": offsets})
    with pytest.raises(fw.InvalidArgument, match="cannot be described"):
        checked_dtype("describe", dtype)
    with pytest.raises(fw.InvalidArgument, match="cannot be described"):
        pair.left.allocate(2, dtype)
    receiver = fw.TensorReceiver(pair.far, "fields")
    sender = fw.TensorSender(pair.near, "fields")
    with pytest.raises(fw.InvalidArgument, match="cannot be described"):
        sender.send(np.zeros(2, dtype))
    sender.close()
    receiver.close()


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
