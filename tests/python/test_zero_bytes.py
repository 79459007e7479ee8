"""Texts with a zero byte, at which the C ABI ends a text: each call refuses them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import farwrite as fw
import farwrite.box
from conftest import Pair
from farwrite import _farwrite

ZERO = "a\0b"


def _publish(pair: Pair) -> object:
    return pair.left.publish(ZERO, pair.left.allocate(8))


def _publish_to_peer(pair: Pair) -> object:
    return pair.far.publish(ZERO, pair.far.allocate(8))


CALLS: dict[str, Callable[[Pair], object]] = {
    "the name": lambda pair: fw.Device(name=ZERO),
    "an address": lambda pair: fw.Device(listen=f"127.0.0.1:0{ZERO}"),
    "a number": lambda pair: fw.Device(send_limit="64M\0"),
    "a fabric": lambda pair: fw.Device(fabrics=["shm\0"]),
    "a peer": lambda pair: pair.left.connect(f"{pair.right.endpoint}\0", 1),
    "a region": _publish,
    "a region of a peer": _publish_to_peer,
    "a region that goes": lambda pair: pair.left.unpublish(ZERO),
    "a region to find": lambda pair: pair.near.lookup(ZERO, 1),
    "a receiver": lambda pair: fw.TensorReceiver(pair.near, ZERO),
    "a sender": lambda pair: fw.TensorSender(pair.near, ZERO, 1),
    "a box": lambda pair: fw.box.connect(f"{pair.right.endpoint}\0"),
    "a level": lambda pair: fw.set_log_level("info\0"),
    "a variable": lambda pair: _farwrite.check_variable("FARWRITE_LOG\0"),
    "a folder": lambda pair: _farwrite.topology("/sys\0"),
}


@pytest.mark.parametrize("what", CALLS)
def test_a_text_with_a_zero_byte_is_refused(pair: Pair, what: str) -> None:
    level = fw.log_level()
    with pytest.raises(fw.InvalidArgument):
        CALLS[what](pair)
    assert fw.log_level() == level


def test_a_segment_with_a_zero_byte_is_refused(tmp_path: Path) -> None:
    with fw.box.serve(memory="16M") as server, fw.box.connect(server.endpoint) as client:
        with pytest.raises(fw.InvalidArgument):
            client.create(ZERO, (4,))
        with pytest.raises(fw.InvalidArgument, match="zero byte"):
            client.create_bytes("bytes", 4, ZERO)
        with pytest.raises(fw.InvalidArgument):
            client.attach(ZERO, 0)
        assert client.list() == []


def test_bytes_of_a_message_and_of_a_token_may_be_zero() -> None:
    with fw.Device(token=b"a\0b") as left, fw.Device(token=b"a\0b") as right:
        near = left.connect(right.endpoint, 10)
        far = right.accept(10)
        near.send(b"a\0b").wait(10)
        assert far.wait_notification(10).message == b"a\0b"
        near.send(np.zeros(3, "uint8")).wait(10)
        assert far.wait_notification(10).message == bytes(3)
    with fw.Device(token=b"a\0b") as left, fw.Device(token=b"a") as right:  # noqa: SIM117
        with pytest.raises(fw.Unauthenticated):
            left.connect(right.endpoint, 10)


def test_a_log_line_with_a_zero_byte_is_whole(capfd: pytest.CaptureFixture[str]) -> None:
    _farwrite.log_warning("before\0after")
    assert "before after" in capfd.readouterr().err
