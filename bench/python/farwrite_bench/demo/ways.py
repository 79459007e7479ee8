"""The ways that the demo compares, each with a function of the sender and one of the receiver.

Both sides set up and touch everything before the clock starts, so that no way pays for first use:
the shared memory is mapped, the channel is open, and the pages are allocated.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import cast

import numpy as np
import numpy.typing as npt

from farwrite import Channel, RegisteredArray, RemoteArray
from farwrite_bench.demo.shared import SharedWords

Words = npt.NDArray[np.uint64]
Progress = Callable[[float], None]

# A copy has this many parts, so that the bar moves.
PARTS = 16


@dataclass(frozen=True)
class Sender:
    """The resources of the sending side."""

    array: Words
    """In registered memory, which is ordinary memory for the other ways."""
    pipe: Connection
    shared: SharedWords
    channel: Channel
    inbox: RemoteArray


@dataclass(frozen=True)
class Receiver:
    """The resources of the receiving side."""

    pipe: Connection
    shared: SharedWords
    channel: Channel
    inbox: RegisteredArray
    source: RemoteArray


@dataclass(frozen=True)
class Way:
    """One way to hand the array over."""

    key: str
    name: str
    copied: str
    """A sentence that states the copies."""
    send: Callable[[Sender, Progress], None]
    receive: Callable[[Receiver], Words]
    """Returns the array as soon as its bytes have arrived."""


def _parts(array: Words) -> list[tuple[int, int]]:
    edges = np.linspace(0, array.size, PARTS + 1).astype(int).tolist()
    return list(itertools.pairwise(edges))


def _send_pickle(sender: Sender, progress: Progress) -> None:
    sender.pipe.send(sender.array)


def _receive_pickle(receiver: Receiver) -> Words:
    array: Words = receiver.pipe.recv()
    return array


def _send_shared(sender: Sender, progress: Progress) -> None:
    for start, end in _parts(sender.array):
        sender.shared.words[start:end] = sender.array[start:end]
        progress(end / sender.array.size)
    sender.pipe.send_bytes(b"done")


def _receive_shared(receiver: Receiver) -> Words:
    receiver.pipe.recv_bytes()
    return receiver.shared.words


def _send_write(sender: Sender, progress: Progress) -> None:
    for start, end in _parts(sender.array):
        sender.channel.write(sender.array[start:end], sender.inbox, offset=start).wait()
        progress(end / sender.array.size)
    sender.channel.flush().wait()
    sender.channel.notify(1).wait()


def _receive_write(receiver: Receiver) -> Words:
    receiver.channel.wait_notification()
    return cast("Words", receiver.inbox.array)


def _send_alias(sender: Sender, progress: Progress) -> None:
    sender.channel.notify(1).wait()
    progress(1.0)


def _receive_alias(receiver: Receiver) -> Words:
    receiver.channel.wait_notification()
    return cast("Words", receiver.source.alias())


WAYS = (
    Way(
        "pickle",
        "pickle over a pipe",
        "The array is pickled into bytes, sent through a pipe in small pieces, and unpickled: four"
        " copies or more.",
        _send_pickle,
        _receive_pickle,
    ),
    Way(
        "shared_memory",
        "shared_memory",
        "NumPy copies the array once, into shared_memory, and the receiver reads it there.",
        _send_shared,
        _receive_shared,
    ),
    Way(
        "write",
        "Farwrite write",
        "Farwrite's copy kernel copies the array once, into the receiver's registered memory.",
        _send_write,
        _receive_write,
    ),
    Way(
        "alias",
        "Farwrite alias",
        "Nothing is copied: the receiver reads the sender's own memory, read-only, under a lease.",
        _send_alias,
        _receive_alias,
    ),
)


def way(key: str) -> Way:
    """Return the way with this key."""
    return next(candidate for candidate in WAYS if candidate.key == key)
