"""A sender that finds neither a slot nor memory waits for its receiver, and says so."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import farwrite as fw
from conftest import Pair
from processes import wait_until

WORDS = 1 << 19  # 4 MiB
LIMIT = 10 << 20


@pytest.fixture(params=["shm", "tcp"])
def narrow(make_pair: Callable[..., Pair], request: pytest.FixtureRequest) -> Pair:
    """A pair that may lend two arrays at a time, over each fabric."""
    return make_pair(fabrics=[request.param], send_limit_per_peer=LIMIT)


def _edge(pair: Pair, name: str, **options: Any) -> tuple[fw.TensorSender, fw.TensorReceiver]:
    receiver = fw.TensorReceiver(pair.far, name, **options)
    return fw.TensorSender(pair.near, name, timeout=20), receiver


@pytest.mark.parametrize(
    "options", [{}, {"shape": (WORDS,), "dtype": "i8", "slots": 1}], ids=["dynamic", "static"]
)
def test_a_slow_receiver_holds_its_sender_back(narrow: Pair, options: dict[str, Any]) -> None:
    sender, receiver = _edge(narrow, "slow", **options)
    taken: list[int] = []

    def take() -> None:
        for array in receiver:
            time.sleep(0.02)
            taken.append(int(array[0]))

    thread = threading.Thread(target=take)
    thread.start()
    with sender:
        for number in range(12):
            sender.send(np.full(WORDS, number), timeout=30).wait()
    thread.join(30)
    assert taken == list(range(12))


def test_failing_at_once_is_a_choice(narrow: Pair) -> None:
    sender, receiver = _edge(narrow, "full")
    for number in range(2):
        sender.send(np.full(WORDS, number), timeout=0)
    with pytest.raises(fw.ResourceExhausted):
        sender.send(np.full(WORDS, 9), timeout=0)
    with pytest.raises(fw.DeadlineExceeded, match='"full" gave nothing back in time'):
        sender.send(np.full(WORDS, 9), timeout=0.3)
    with pytest.raises(fw.ResourceExhausted):  # for what nothing makes room
        sender.send(np.full(4 * WORDS, 9), timeout=0)
    assert [int(receiver.receive(10)[0]) for _ in range(2)] == [0, 1]
    with pytest.raises(fw.ResourceExhausted):
        sender.send(np.full(4 * WORDS, 9), timeout=None)
    sender.send(np.full(WORDS, 2))
    assert receiver.receive(10)[0] == 2


def test_ctrl_c_ends_a_send_that_waits(narrow: Pair) -> None:
    sender, receiver = _edge(narrow, "interrupted")
    for number in range(2):
        sender.send(np.full(WORDS, number))
    with pytest.raises(KeyboardInterrupt):
        threading.Timer(0.3, signal.raise_signal, [signal.SIGINT]).start()
        sender.send(np.full(WORDS, 9), timeout=None)
    assert [int(receiver.receive(10)[0]) for _ in range(2)] == [0, 1]


def test_a_wait_for_the_last_view_is_logged(pair: Pair, capfd: pytest.CaptureFixture[str]) -> None:
    sender, receiver = _edge(pair, "held")
    array = pair.left.allocate((10,), "i8")
    held: list[Any] = []
    receiving = threading.Thread(target=lambda: held.append(receiver.receive(20)))
    receiving.start()
    sent = sender.send(array)
    receiving.join(20)

    def let_go_once_told() -> None:
        try:
            said = '"held" drops a tensor of registered memory'
            wait_until(lambda: said in capfd.readouterr().err)
        finally:
            held.clear()

    letting_go = threading.Thread(target=let_go_once_told)
    letting_go.start()
    sent.wait(70)
    letting_go.join()
