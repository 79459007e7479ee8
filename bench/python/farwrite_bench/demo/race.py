"""Runs every way in turn between this process and a second one, and measures the times."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import cast

import numpy as np
import numpy.typing as npt

from farwrite import Device
from farwrite.errors import Internal, PeerDead
from farwrite_bench.demo.bars import Bar
from farwrite_bench.demo.checksum import checksum, fill, stamp
from farwrite_bench.demo.receiver import SETUP_SECONDS, Invitation, Receipt, Task, receive
from farwrite_bench.demo.shared import SharedWords
from farwrite_bench.demo.ways import WAYS, Sender, Way

# Memory of both processes, in arrays: source, inbox, shared memory, and the copies of pickle.
ARRAYS_IN_MEMORY = 8
ANSWER_SECONDS = 120.0
# A way that takes longer runs in the first round only, so that the demo stays short.
SLOW_SECONDS = 2.0


@dataclass(frozen=True)
class Result:
    """The best round of one way."""

    way: Way
    seconds: float
    """From the sender's call until the receiver had the array."""
    seconds_read: float
    """Until the receiver had read all of it."""


def race(size: int, rounds: int, make_bar: Callable[[str], Bar] = Bar) -> list[Result]:
    """Hand over an array of `size` bytes in every way, `rounds` times, and keep the best of each.

    Parameters
    ----------
    size : int
        Bytes; a whole number of MiB.
    rounds : int
        Each way has one turn in a round. A way that takes over 2 s runs in the first round only.

    Raises
    ------
    Internal
        If a checksum is wrong.
    """
    best: dict[str, Result] = {}
    with contextlib.ExitStack() as stack:
        with make_bar("setting up both processes") as bar:
            sender, control = stack.enter_context(_two_processes(size))
            sums = checksum(sender.array)
            bar.result("ready")
        for number in range(1, rounds + 1):
            for way in WAYS:
                known = best.get(way.key)
                if known is not None and known.seconds_read > SLOW_SECONDS:
                    continue
                stamp(sender.array, sums)
                label = f"{way.name}, {number} of {rounds}" if rounds > 1 else way.name
                with make_bar(label) as bar:
                    result = _run(way, sender, control, sums, bar)
                    bar.result(f"{result.seconds:8.4f} s, read in {result.seconds_read:.4f} s")
                if known is None or result.seconds_read < known.seconds_read:
                    best[way.key] = result
    return [best[way.key] for way in WAYS]


def _run(
    way: Way,
    sender: Sender,
    control: Connection,
    sums: npt.NDArray[np.uint64],
    bar: Bar,
) -> Result:
    gc.collect()
    control.send(Task(way.key, sums))
    _answer(control)
    start = time.monotonic()
    way.send(sender, bar.progress)
    receipt = cast("Receipt", _answer(control))
    if not receipt.verified:
        raise Internal(f"demo: the checksum after '{way.name}' is wrong; report this")
    return Result(way, receipt.arrived - start, receipt.read - start)


def _answer(control: Connection) -> object:
    try:
        if control.poll(ANSWER_SECONDS):
            return control.recv()
    except (EOFError, OSError):
        pass
    raise PeerDead("demo: the second process ended early; its own message is above")


@contextlib.contextmanager
def _two_processes(size: int) -> Iterator[tuple[Sender, Connection]]:
    spawn = multiprocessing.get_context("spawn")
    with contextlib.ExitStack() as stack:
        control, their_control = (stack.enter_context(end) for end in spawn.Pipe())
        their_pipe, pipe = (stack.enter_context(end) for end in spawn.Pipe(duplex=False))
        shared = stack.enter_context(SharedWords(size // 8))
        device = stack.enter_context(Device(send_limit=2 * size + 2**30))
        invitation = Invitation(their_control, their_pipe, shared.name, device.endpoint, size // 8)
        child = spawn.Process(target=receive, args=(invitation,), name="receiver", daemon=True)
        child.start()
        stack.callback(_end, child, control)
        their_control.close()
        their_pipe.close()

        array = device.allocate(size // 8, np.uint64)
        fill(array.array, seed=size)
        device.publish("array", array)
        shared.words[:] = 0  # allocates the pages
        channel = stack.enter_context(device.accept(SETUP_SECONDS))
        inbox = channel.lookup("inbox", SETUP_SECONDS)
        _answer(control)
        yield Sender(array.array, pipe, shared, channel, inbox), control


def _end(child: multiprocessing.process.BaseProcess, control: Connection) -> None:
    control.close()
    child.join(2)
    if child.is_alive():
        child.kill()
        child.join()
