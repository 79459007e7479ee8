"""The demo's second process: receives the array in every way, reads all of it and checks it."""

from __future__ import annotations

import contextlib
import signal
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection

import numpy as np
import numpy.typing as npt

from farwrite import Device
from farwrite_bench.demo.checksum import checksum
from farwrite_bench.demo.shared import SharedWords
from farwrite_bench.demo.ways import Receiver, way

READY = "ready"
SETUP_SECONDS = 30.0


@dataclass(frozen=True)
class Invitation:
    """The arguments of the second process."""

    control: Connection
    pipe: Connection
    shared_name: str
    endpoint: str
    words: int
    """Length of the array, in 64-bit words."""


@dataclass(frozen=True)
class Task:
    """One transfer to receive."""

    key: str
    sums: npt.NDArray[np.uint64]
    """The checksum of the array that will arrive."""


@dataclass(frozen=True)
class Receipt:
    """When the array arrived and when it was read, by CLOCK_MONOTONIC, and whether it was right."""

    arrived: float
    read: float
    verified: bool


def receive(invitation: Invitation) -> None:
    """Run the second process until the first one closes the control pipe."""
    # Ctrl-C reaches both processes; the first one closes the pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control = invitation.control
    # OSError: the first process is gone, so no process can receive an error.
    with contextlib.suppress(EOFError, OSError), contextlib.ExitStack() as stack:
        receiver = _set_up(invitation, stack)
        control.send(READY)
        while True:
            task: Task = control.recv()
            control.send(READY)
            control.send(_take(receiver, task))


def _set_up(invitation: Invitation, stack: contextlib.ExitStack) -> Receiver:
    shared = stack.enter_context(SharedWords(invitation.words, invitation.shared_name))
    checksum(shared.words)  # maps the pages, as connecting does for Farwrite
    device = stack.enter_context(Device())
    channel = stack.enter_context(device.connect(invitation.endpoint, SETUP_SECONDS))
    inbox = channel.publish("inbox", channel.allocate(invitation.words, np.uint64))
    source = channel.lookup("array", SETUP_SECONDS)
    return Receiver(invitation.pipe, shared, channel, inbox, source)


def _take(receiver: Receiver, task: Task) -> Receipt:
    array = way(task.key).receive(receiver)
    arrived = time.monotonic()
    sums = checksum(array)
    return Receipt(arrived, time.monotonic(), np.array_equal(sums, task.sums))
