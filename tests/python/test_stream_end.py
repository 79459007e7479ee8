"""The end of a stream of tensors: what was sent arrives, and an early end never looks complete."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import farwrite as fw
from conftest import Link, Pair
from processes import PeerState, wait_until

STATIC: dict[str, Any] = {"shape": (4096,), "dtype": "i8"}
DYNAMIC: dict[str, Any] = {}
SENT = 5


@pytest.fixture(params=["shm", "tcp"])
def fabric_link(make_link: Callable[..., Link], request: pytest.FixtureRequest) -> Link:
    """A peer process, over each fabric."""
    return make_link(fabrics=[request.param])


def _send_and_leave(state: PeerState, count: int) -> None:
    with state.device, state.channel, fw.TensorSender(state.channel, "left", 20) as sender:
        for number in range(count):
            sender.send(np.full(4096, number)).wait(20)


@pytest.mark.parametrize("options", [STATIC, DYNAMIC], ids=["static", "dynamic"])
def test_a_late_receiver_gets_every_array_of_a_sender_that_has_left(
    fabric_link: Link, options: dict[str, Any]
) -> None:
    with fw.TensorReceiver(fabric_link.channel, "left", **options) as receiver:
        fabric_link.peer.start(_send_and_leave, SENT)
        time.sleep(1)
        assert [int(array[0]) for array in receiver] == list(range(SENT))
    fabric_link.peer.result()


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


def _open_and_keep(state: PeerState) -> None:
    state.kept["receiver"] = fw.TensorReceiver(state.channel, "kept", **STATIC, slots=SENT)
    state.kept["other"] = fw.TensorReceiver(state.channel, "empty")


def _take(state: PeerState, count: int) -> None:
    for _ in range(count):
        state.kept["receiver"].receive(20)


def test_a_closing_sender_hears_how_much_a_receiver_took_that_died(fabric_link: Link) -> None:
    fabric_link.peer.run(_open_and_keep)
    sender = fw.TensorSender(fabric_link.channel, "kept", 20)
    empty = fw.TensorSender(fabric_link.channel, "empty", 20)
    for number in range(SENT):
        sender.send(np.full(4096, number)).wait(20)
    fabric_link.peer.run(_take, 2)

    def knows_of_both() -> bool:
        with pytest.raises(fw.DeadlineExceeded) as late:
            sender.close(0.05)
        return f'"kept" took 2 of {SENT} tensors in time' in str(late.value)

    wait_until(knows_of_both)
    fabric_link.peer.kill()
    with pytest.raises(fw.PeerDead, match=f'"kept" took 2 of {SENT} tensors, as far as is known'):
        sender.close(20)
    sender.close()
    empty.close()  # nothing was lost


def _fail_in_the_middle(state: PeerState) -> None:
    with fw.TensorSender(state.channel, "failed", 20) as sender:
        for number in range(SENT):
            sender.send(np.full(4096, number)).wait(20)
        raise KeyError("in the middle")


def test_an_exception_in_the_senders_block_is_no_end(fabric_link: Link) -> None:
    receiver = fw.TensorReceiver(fabric_link.channel, "failed", **STATIC, slots=SENT)
    fabric_link.peer.start(_fail_in_the_middle)
    taken = []
    with pytest.raises(fw.Unavailable, match=f"abandoned .* {SENT} tensors"):
        for array in receiver:
            taken.append(int(array[0]))
    assert taken == list(range(SENT))
    with pytest.raises(KeyError):
        fabric_link.peer.result()


def _fail_and_exit(state: PeerState, count: int) -> None:
    with (
        contextlib.suppress(KeyError),
        state.device,
        state.channel,
        fw.TensorSender(state.channel, "exits", 20) as sender,
    ):
        for number in range(count):
            sender.send(np.full(4096, number))
        raise KeyError("in the middle")
    os._exit(0)


def test_a_process_that_leaves_in_good_order_is_not_called_dead(fabric_link: Link) -> None:
    receiver = fw.TensorReceiver(fabric_link.channel, "exits", **STATIC, slots=2)
    fabric_link.peer.start(_fail_and_exit, SENT)
    os.waitid(os.P_PID, fabric_link.peer.pid, os.WEXITED | os.WNOWAIT)
    taken = []
    # What found no slot is lost with its process.
    with pytest.raises(fw.Unavailable, match=r"broke off after|abandoned"):
        for array in receiver:
            taken.append(int(array[0]))
    assert taken[:2] == [0, 1]
    assert taken == list(range(len(taken)))


def _send_and_die(state: PeerState, count: int) -> None:
    sender = fw.TensorSender(state.channel, "lost", 20)
    for number in range(count):
        sender.send(np.full(4096, number)).wait(20)
    os.kill(os.getpid(), signal.SIGKILL)


def test_tensors_that_found_no_slot_are_lost_with_their_sender(fabric_link: Link) -> None:
    receiver = fw.TensorReceiver(fabric_link.channel, "lost", **STATIC, slots=2)
    fabric_link.peer.start(_send_and_die, SENT)
    wait_until(lambda: fabric_link.channel.peer_state is fw.PeerState.DEAD)
    taken = []
    with pytest.raises(fw.Error, match='"lost" broke off after 2 tensors'):
        for array in receiver:
            taken.append(int(array[0]))
    assert taken == [0, 1]


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
