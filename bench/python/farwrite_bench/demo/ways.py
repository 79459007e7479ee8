"""The ways the demo compares: for each, what the sender does and what the receiver does.

Both sides have everything set up and touched before the clock starts, so that no way pays for first
use: the shared memory is mapped, the channel is open, the pages are there.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection

import numpy as np
import numpy.typing as npt

from farwrite import Channel, RegisteredArray, RemoteArray
from farwrite_bench.demo.shared import SharedWords

Words = npt.NDArray[np.uint64]
Progress = Callable[[float], None]

# Copies go in this many parts, so that the bar moves.
PARTS = 16


@dataclass(frozen=True)
class Sender:
    """What the sending side has at hand."""

    array: Words
    """In registered memory; for the other ways that is memory like any other."""
    pipe: Connection
    shared: SharedWords
    channel: Channel
    inbox: RemoteArray


@dataclass(frozen=True)
class Receiver:
    """What the receiving side has at hand."""

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
    """What was copied, in a sentence."""
    send: Callable[[Sender, Progress], None]
    receive: Callable[[Receiver], Words]
    """Returns the array as soon as its bytes are there."""


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
    return receiver.inbox.array


def _send_alias(sender: Sender, progress: Progress) -> None:
    sender.channel.notify(1).wait()
    progress(1.0)


def _receive_alias(receiver: Receiver) -> Words:
    receiver.channel.wait_notification()
    return receiver.source.alias()


WAYS = (
    Way(
        "pickle",
        "pickle over a pipe",
        "Pickled into bytes, through the kernel's pipe in small pieces, and unpickled:"
        " four copies or more.",
        _send_pickle,
        _receive_pickle,
    ),
    Way(
        "shared_memory",
        "shared_memory",
        "Copied once, by NumPy, into shared_memory, where the receiver looks at it.",
        _send_shared,
        _receive_shared,
    ),
    Way(
        "write",
        "Farwrite write",
        "Copied once, by Farwrite's copy kernel, into the receiver's registered memory.",
        _send_write,
        _receive_write,
    ),
    Way(
        "alias",
        "Farwrite alias",
        "Nothing was copied: the receiver looks at the sender's own memory, read-only, on a lease.",
        _send_alias,
        _receive_alias,
    ),
)


def way(key: str) -> Way:
    """Return the way of that key."""
    return next(candidate for candidate in WAYS if candidate.key == key)
