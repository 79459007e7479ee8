"""Memory of other libraries that a transfer uses is held until the transfer is over, no longer."""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import farwrite as fw
from conftest import Link
from processes import PeerState, bytes_in_sockets
from test_arrays import DLPackOnly

WORDS = (bytes_in_sockets() + (8 << 20)) // 8
"""Of a transfer that is under way as long as the peer is stopped."""
Start = Callable[[Any], fw.Completion]
LENDERS: dict[str, Callable[[Any], Any]] = {
    "NumPy": lambda array: array,
    "a view": lambda array: array[:],
    "a buffer": memoryview,
    "DLPack": DLPackOnly,
}


@pytest.fixture
def link(make_link: Callable[..., Link]) -> Link:
    """To a peer that takes nothing while it is stopped, so that the kernel soon takes no more."""
    return make_link(fabrics=["tcp"])


def _released(watched: weakref.ref[Any]) -> bool:
    give_up = time.monotonic() + 20
    while watched() is not None and time.monotonic() < give_up:
        gc.collect()
        time.sleep(0.01)
    return watched() is None


def _held_while_under_way(
    link: Link, lender: str, start: Start, received: Callable[[], Any]
) -> None:
    array = np.full(WORDS, 7, "int64")
    watched = weakref.ref(array)
    with link.peer.stopped():
        done = start(LENDERS[lender](array))
        del array
        gc.collect()
        assert not done.done(), lender
        assert watched() is not None, lender
    assert received(), lender
    done.wait(30)
    assert _released(watched), lender


def _open_inbox(state: PeerState) -> None:
    state.kept["inbox"] = state.channel.publish("inbox", state.channel.allocate(WORDS, "int64"))


def _inbox_is_full(state: PeerState) -> bool:
    state.channel.wait_notification(30)
    array = state.kept["inbox"].array
    is_full = bool((array == 7).all())
    array[:] = 0
    return is_full


def test_a_write_holds_its_source(link: Link) -> None:
    link.peer.run(_open_inbox)
    remote = link.channel.lookup("inbox")
    for lender in LENDERS:
        _held_while_under_way(
            link,
            lender,
            lambda source: link.channel.write(source, remote, notify=1),
            lambda: link.peer.run(_inbox_is_full),
        )


def test_a_bytearray_of_a_transfer_cannot_be_resized(link: Link) -> None:
    link.peer.run(_open_inbox)
    link.peer.run(_open_source)
    inbox, source = (link.channel.lookup_bytes(name) for name in ("inbox", "source"))
    starts: tuple[Start, ...] = (
        lambda memory: link.channel.write(memory, inbox),
        lambda memory: link.channel.write(memoryview(memory), inbox),
        lambda memory: link.channel.read(source, memory),
        # The bindings hold the memory themselves, whatever the package gives them.
        lambda memory: fw.Completion(
            link.channel._native.write(memory, inbox.native, 0, None, 0), link.channel
        ),
        lambda memory: fw.Completion(
            link.channel._native.read(memory, source.native, 0, 0), link.channel
        ),
    )
    for start in starts:
        memory = bytearray(WORDS * 8)
        with link.peer.stopped():
            done = start(memory)
            assert not done.done()
            with pytest.raises(BufferError):
                memory.append(1)
        done.wait(30)
        del done
        # The poller's thread may be the last to let go of it.
        give_up = time.monotonic() + 10
        while not can_be_resized(memory):
            assert time.monotonic() < give_up
            time.sleep(0.01)


def can_be_resized(source: bytearray) -> bool:
    gc.collect()
    try:
        source.append(1)
    except BufferError:
        return False
    return True


def _open_source(state: PeerState) -> None:
    state.kept["source"] = state.channel.publish("source", state.device.allocate(WORDS, "int64"))


def test_a_read_holds_its_destination(link: Link) -> None:
    link.peer.run(_open_source)
    remote = link.channel.lookup("source")
    for lender in LENDERS:
        _held_while_under_way(
            link, lender, lambda out: link.channel.read(remote, out), lambda: True
        )


def _open_receiver(state: PeerState) -> None:
    state.kept["edge"] = fw.TensorReceiver(state.channel, "edge", WORDS, "int64")


def _received(state: PeerState) -> bool:
    return bool((state.kept["edge"].receive(30) == 7).all())


def test_a_tensor_on_its_way_holds_its_source(link: Link) -> None:
    link.peer.run(_open_receiver)
    sender = fw.TensorSender(link.channel, "edge")
    for lender in LENDERS:
        _held_while_under_way(link, lender, sender.send, lambda: link.peer.run(_received))


def _message(state: PeerState) -> bytes:
    return state.channel.wait_notification(30).message


def test_a_message_is_a_copy(link: Link) -> None:
    message = bytearray(b"before")
    with link.peer.stopped():
        link.channel.send(message)
        message[:] = b"behind"
    assert link.peer.run(_message) == b"before"
