"""Hands an array to a second process in four ways, in turn, and measures the times.

Both sides set up and touch everything before the clock starts, so that no way pays for first use:
the shared memory is mapped, the channel is open, and the pages are allocated.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.shared_memory import SharedMemory
from typing import cast

import numpy as np
import numpy.typing as npt

from farwrite import Channel, Device, RemoteArray
from farwrite.errors import DeadlineExceeded, Internal
from farwrite_demo.child import Child
from farwrite_demo.progress import Progress
from farwrite_demo.shared import shared_memory

Words = npt.NDArray[np.uint64]

BLOCK_BYTES = 2**20
BLOCK_WORDS = BLOCK_BYTES // 8
ARRAYS_IN_MEMORY = 8
"""Memory of both processes, in arrays: source, inbox, shared memory, and the copies of pickle."""
SLOW_SECONDS = 5.0
"""A way that takes longer runs in the first round only, so that the demo stays short."""
SETUP_SECONDS = 30.0


@dataclass(frozen=True)
class Side:
    """The resources of the sender, or of the receiver."""

    array: Words
    """The sender's source, or the receiver's inbox: in registered memory, which is ordinary memory
    for the other ways."""
    remote: RemoteArray
    """The same of the other side."""
    pipe: Connection
    shared: SharedMemory
    channel: Channel


@dataclass(frozen=True)
class Way:
    """One way to hand the array over."""

    name: str
    copied: str
    """A sentence that states the copies."""
    send: Callable[[Side], object]
    receive: Callable[[Side], Words]
    """Returns the array as soon as its bytes have arrived."""


def _send_shared(sender: Side) -> None:
    np.copyto(_words(sender.shared, sender.array.size), sender.array)
    sender.pipe.send_bytes(b"done")


def _receive_shared(receiver: Side) -> Words:
    receiver.pipe.recv_bytes()
    return _words(receiver.shared, receiver.array.size)


def _send_write(sender: Side) -> None:
    sender.channel.write(sender.array, sender.remote, notify=1).wait()


def _receive_write(receiver: Side) -> Words:
    receiver.channel.wait_notification()
    return receiver.array


def _receive_alias(receiver: Side) -> Words:
    receiver.channel.wait_notification()
    return cast("Words", receiver.remote.alias())


WAYS = {
    "pickle": Way(
        "pickle over a pipe",
        "The array is pickled into bytes, sent through a pipe in small pieces, and unpickled: four"
        " copies or more.",
        lambda sender: sender.pipe.send(sender.array),
        lambda receiver: cast("Words", receiver.pipe.recv()),
    ),
    "shared_memory": Way(
        "shared_memory",
        "NumPy copies the array once, into shared_memory, and the receiver reads it there.",
        _send_shared,
        _receive_shared,
    ),
    "write": Way(
        "Farwrite write",
        "Farwrite's copy kernel copies the array once, into the receiver's registered memory.",
        _send_write,
        _receive_write,
    ),
    "alias": Way(
        "Farwrite alias",
        "Nothing is copied: the receiver reads the sender's own memory, read-only, under a lease.",
        lambda sender: sender.channel.notify(1).wait(),
        _receive_alias,
    ),
}


@dataclass(frozen=True)
class Result:
    """The best round of one way."""

    seconds: float
    """From the sender's call until the receiver had the array."""
    seconds_read: float
    """Until the receiver had read all of it."""


def checksum(array: Words) -> Words:
    """Read all of `array` and return one sum for each block of 1 MiB.

    Blocks in the wrong order or place therefore change it, and it is fast beside a transfer.
    """
    sums: Words = array.reshape(-1, BLOCK_WORDS).sum(axis=1)
    return sums


def fill(array: Words) -> None:
    """Fill `array`, a whole number of blocks, with noise that differs in every block."""
    noise = np.random.default_rng(1).integers(2**63, size=BLOCK_WORDS, dtype=np.uint64)
    for number, block in enumerate(array.reshape(-1, BLOCK_WORDS)):
        np.bitwise_xor(noise, np.uint64(number), out=block)


def stamp(array: Words, sums: Words) -> None:
    """Change every block and its sum, so that the bytes of an older transfer are detected."""
    array.reshape(-1, BLOCK_WORDS)[:, 0] += np.uint64(1)
    sums += np.uint64(1)


def race(size: int, rounds: int) -> dict[str, Result]:
    """Hand over an array of `size` bytes in every way, `rounds` times, and keep the best of each.

    Parameters
    ----------
    size : int
        Bytes; a whole number of MiB.
    rounds : int
        Each way has one turn in a round. A way that takes over 5 s runs in the first round only.

    Raises
    ------
    Internal
        If a checksum is wrong.
    """
    best: dict[str, Result] = {}
    with contextlib.ExitStack() as stack:
        with Progress("setting up both processes") as line:
            sender, child = stack.enter_context(_two_processes(size))
            sums = checksum(sender.array)
            line.result = "ready"
        for number in range(1, rounds + 1):
            for key, way in WAYS.items():
                known = best.get(key)
                if known is not None and known.seconds_read > SLOW_SECONDS:
                    continue
                stamp(sender.array, sums)
                with Progress(f"{way.name}, {number} of {rounds}") as line:
                    result = _turn(key, sender, child, sums)
                    line.result = f"{result.seconds:8.4f} s, read in {result.seconds_read:.4f} s"
                if known is None or result.seconds_read < known.seconds_read:
                    best[key] = result
    return {key: best[key] for key in WAYS}


def _turn(key: str, sender: Side, child: Child, sums: Words) -> Result:
    gc.collect()
    child.ask(key)
    start = time.monotonic()
    WAYS[key].send(sender)
    arrived, read, found = child.receive()
    if not np.array_equal(found, sums):
        raise Internal(f"demo: the checksum after '{WAYS[key].name}' is wrong; report this")
    return Result(arrived - start, read - start)


@contextlib.contextmanager
def _two_processes(size: int) -> Iterator[tuple[Side, Child]]:
    count = size // 8
    with contextlib.ExitStack() as stack:
        theirs, pipe = (
            stack.enter_context(end) for end in multiprocessing.get_context("spawn").Pipe(False)
        )
        shared = stack.enter_context(shared_memory(size))
        device = stack.enter_context(Device(send_limit=2 * size + 2**30))
        child = stack.enter_context(
            Child("receiver", receive, theirs, shared.name, device.endpoint, count)
        )
        theirs.close()
        array = device.allocate(count, np.uint64)
        fill(array.array)
        device.publish("array", array)
        _words(shared, count)[:] = 0  # maps the pages
        channel = stack.enter_context(_accept(device, child))
        inbox = channel.lookup("inbox", SETUP_SECONDS)
        child.receive()
        channel.write(array.array, inbox).wait()  # maps the inbox here
        yield Side(array.array, inbox, pipe, shared, channel), child


def _accept(device: Device, child: Child) -> Channel:
    """Accept the child's channel. The wait ends with the child."""
    give_up = time.monotonic() + SETUP_SECONDS
    while True:
        try:
            return device.accept(0.2)
        except DeadlineExceeded:
            child.check()
            if time.monotonic() > give_up:
                raise


def receive(
    control: Connection, pipe: Connection, shared_name: str, endpoint: str, count: int
) -> None:
    """Receive the array in the ways that arrive on `control`, read all of it, and answer.

    The answer is when the array arrived and when it was read, by CLOCK_MONOTONIC, and its checksum.
    """
    with (
        contextlib.closing(SharedMemory(shared_name)) as shared,
        Device() as device,
        device.connect(endpoint, SETUP_SECONDS) as channel,
    ):
        checksum(_words(shared, count))  # maps the pages, as connecting does for Farwrite
        inbox = channel.publish("inbox", channel.allocate(count, np.uint64))
        source = channel.lookup("array", SETUP_SECONDS)
        receiver = Side(inbox.array, source, pipe, shared, channel)
        control.send("ready")
        while True:
            way = WAYS[control.recv()]
            control.send("ready")
            control.send(_take(receiver, way))


def _take(receiver: Side, way: Way) -> tuple[float, float, Words]:
    array = way.receive(receiver)
    arrived = time.monotonic()
    sums = checksum(array)
    return arrived, time.monotonic(), sums


def _words(shared: SharedMemory, count: int) -> Words:
    """View shared memory. Drop the view before `close`, which refuses while there is one."""
    assert shared.buf is not None
    return np.frombuffer(shared.buf, np.uint64, count)
