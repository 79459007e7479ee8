"""An exception in the middle of a call, as a signal handler raises it, frees no memory in use."""

from __future__ import annotations

import random
import re
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np
import pytest

import farwrite as fw
from conftest import Link
from interrupted import interrupt_each_place
from processes import PeerState, bytes_in_sockets
from warm_python import run_python

PROGRAM = Path(__file__).with_name("alarms_program.py")
# Of a write that no socket takes at once.
LARGE = (bytes_in_sockets() + (8 << 20)) // 8
SMALL = 1 << 14


def _open(state: PeerState) -> None:
    state.kept["inbox"] = state.channel.publish("inbox", state.channel.allocate(LARGE, "int64"))
    state.kept["outbox"] = state.device.publish("outbox", state.device.allocate(LARGE, "int64"))
    state.kept["edge"] = fw.TensorReceiver(state.channel, "edge", SMALL, "int64")


@pytest.mark.parametrize("operation", ["write", "read"])
@pytest.mark.parametrize(
    ("offset", "places"), [(0, 3), (np.int64(0), 8)], ids=["plain", "checked in Python"]
)
def test_an_exception_at_any_instruction_of_a_call_leaves_its_array_with_the_operation(
    make_link: Callable[..., Link], operation: str, offset: SupportsIndex, places: int
) -> None:
    link = make_link(fabrics=["tcp"])
    link.peer.run(_open)
    channel = link.channel
    inbox, outbox = channel.lookup("inbox"), channel.lookup("outbox")
    used: list[weakref.ref[Any]] = []
    before = 0

    def posted() -> int:
        return channel.stats().writes if operation == "write" else channel.stats().reads

    def call() -> None:
        array = np.ones(SMALL, "int64")
        used.append(weakref.ref(array))
        if operation == "write":
            channel.write(array, inbox, offset)
        else:
            channel.read(outbox, array, offset)

    def look() -> None:
        nonlocal before
        assert (used[-1]() is not None) == (posted() > before)
        before = posted()

    with link.peer.stopped():
        first = channel.write(np.ones(LARGE, "int64"), inbox)  # what follows waits behind it
        before = posted()
        assert interrupt_each_place(call, look, "channel.py", "completion.py") > places
        assert not first.done()
        assert posted() > 1
    first.wait(30)


def test_an_exception_at_any_instruction_of_a_send_leaves_its_memory_with_the_tensor(
    make_link: Callable[..., Link],
) -> None:
    link = make_link(fabrics=["tcp"])
    link.peer.run(_open)
    sender = fw.TensorSender(link.channel, "edge")
    before = (0, 0)

    def sent() -> int:
        stats = sender.stats()
        return stats.pushed + stats.offered

    def used() -> int:
        return link.device.stats().send.used

    def send() -> None:
        sender.send(link.device.allocate(SMALL, "int64"))

    def look() -> None:
        nonlocal before
        assert (used() > before[1]) == (sent() > before[0])
        before = (sent(), used())

    with link.peer.stopped():
        # From here on the tensors have no slot: the peer reads them where they are.
        for _ in range(3):
            send()
        before = (sent(), used())
        assert interrupt_each_place(send, look, "tensor.py", "completion.py") > 10
        assert sent() > 4


@pytest.mark.parametrize("fabric", ["shm", "tcp"])
@pytest.mark.parametrize("operation", ["publish", "write", "accumulate", "channel", "send"])
def test_alarms_at_random_moments_mix_no_data(fabric: str, operation: str) -> None:
    seed = random.randrange(1 << 30)
    ended = run_python(str(PROGRAM), fabric, operation, str(seed), "1.5", seconds=100)
    assert ended.stderr == "", f"seed {seed}"
    assert re.fullmatch(r"[1-9]\d* interrupted; [1-9]\d* arrived;\n", ended.stdout), (
        f"seed {seed}: {ended.stdout}"
    )
