"""The end of a stream of tensors: what was sent arrives, and an early end never looks complete."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import farwrite as fw
from conftest import Link, Pair
from processes import PeerState


@pytest.fixture(params=["shm", "tcp"])
def fabric_link(make_link: Callable[..., Link], request: pytest.FixtureRequest) -> Link:
    """A peer process, over each fabric."""
    return make_link(fabrics=[request.param])


def _send_many(state: PeerState, count: int) -> None:
    sender = fw.TensorSender(state.channel, "killed", 20)
    state.kept["sender"] = sender
    for number in range(count):
        sender.send(np.full(4096, number)).wait(20)


def test_the_death_of_a_sender_is_no_end(fabric_link: Link) -> None:
    receiver = fw.TensorReceiver(fabric_link.channel, "killed")
    fabric_link.peer.run(_send_many, 20)
    fabric_link.peer.kill()
    with pytest.raises(fw.PeerDead):
        list(receiver)
    with pytest.raises(fw.PeerDead):
        for _ in range(21):
            receiver.receive(20)


def test_the_end_of_the_channel_is_no_end_of_the_stream(pair: Pair) -> None:
    receiver = fw.TensorReceiver(pair.far, "stream", (4,), "i4")
    sender = fw.TensorSender(pair.near, "stream", 20)
    sender.send(np.zeros(4, "i4")).wait(10)
    pair.near.close()
    taken = []
    with pytest.raises(fw.Unavailable, match='"stream" broke off after 1 tensor'):
        for array in receiver:
            taken.append(array)
    assert len(taken) == 1
    pair.far.close()
    with pytest.raises(fw.Error):
        list(receiver)
