"""One side of a library with a Python API: a `Task` of this module."""

from __future__ import annotations

import contextlib
import resource
import time
from multiprocessing.connection import Connection

from farwrite_bench._native import transfer_of
from farwrite_bench.peers.end import End
from farwrite_bench.peers.loop import Loop, Payloads, now_ns
from farwrite_bench.peers.peer import Figures


def main(control: Connection) -> None:
    """Open an end, and follow the command's orders until it closes the connection.

    The command sends the class of the end and its `Setup`, and gets the address and the settings.
    It sends the other side's address, and then loops. The receiver answers a loop twice: when it is
    ready, and with its figures.
    """
    kind, setup = control.recv()
    end: End = kind(setup)
    with contextlib.closing(end):
        control.send((end.address, end.settings))
        end.connect(control.recv())
        control.send(None)
        while True:
            loop: Loop = control.recv()
            if setup.receives:
                end.start(loop)
                control.send(None)
                control.send(run_receiver(end))
            else:
                control.send(run_sender(end, loop))


def run_receiver(end: End) -> tuple[Figures, list[int]]:
    """Run the receiver's side of the loop that has started; return when each was read, too."""
    meter = Meter(end)
    end.serve()
    seconds, cpu_seconds, copies = meter.stop()
    checker = end.checker
    return Figures(seconds, cpu_seconds, checker.bad, [], copies), checker.read_ns


def run_sender(end: End, loop: Loop) -> tuple[Figures, list[int]]:
    """Run the sender's side of a loop; returns when every payload was read and answered.

    Returns
    -------
    tuple
        The figures, with the times of echoes, and when each one-way transfer began, in nanoseconds
        of CLOCK_MONOTONIC.
    """
    payloads = Payloads(end.out, loop)
    end.start(loop)
    bad = 0
    samples: list[float] = []
    began: list[int] = []
    meter = Meter(end)
    if loop.echoes:
        for transfer in range(loop.transfers):
            offset = payloads.rewrite(transfer)
            start = now_ns()
            answer = end.exchange(offset)
            if transfer_of(answer, loop.seed, loop.places, loop.stride) != transfer:
                bad += 1
            samples.append((now_ns() - start) / 2e3)
            del answer
            end.release()
    elif loop.one_way:
        for transfer in range(loop.transfers):
            offset = payloads.number(transfer)
            began.append(now_ns())
            end.deliver(offset)
    else:
        end.stream(map(payloads.number, range(loop.transfers)))
    seconds, cpu_seconds, copies = meter.stop()
    payloads.restore()
    return Figures(seconds, cpu_seconds, bad, samples, copies), began


class Meter:
    """The costs of a loop in this process, and in the library's other processes."""

    def __init__(self, end: End) -> None:
        self._end = end
        self._copies = end.copies()
        self._cpu = self._cpu_seconds()
        self._start = time.monotonic()

    def stop(self) -> tuple[float, float, int | None]:
        """Return the seconds, the processor's seconds and the copies since this meter was made."""
        seconds = time.monotonic() - self._start
        copies = self._end.copies()
        if copies is not None and self._copies is not None:
            copies -= self._copies
        return seconds, self._cpu_seconds() - self._cpu, copies

    def _cpu_seconds(self) -> float:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return usage.ru_utime + usage.ru_stime + self._end.helpers_cpu_seconds()
