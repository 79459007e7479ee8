"""The sender's and the receiver's loop, which are the same for every library with a Python API."""

from __future__ import annotations

import resource
import time

from farwrite_bench._native import transfer_of
from farwrite_bench.peers.end import End
from farwrite_bench.peers.loop import ECHO, ONE_WAY, Loop, Ran
from farwrite_bench.peers.pool import Buffer, Payloads

now_ns = time.monotonic_ns


class Meter:
    """The costs of a loop in this process, and in the library's other processes."""

    def __init__(self, end: End) -> None:
        self._end = end
        self._copies = end.copies()
        self._cpu = self._cpu_seconds()
        self._start = time.monotonic()

    def stop(self, bad: int, samples_us: list[float], moments: list[int]) -> Ran:
        """Return the figures since this meter was made."""
        seconds = time.monotonic() - self._start
        copies = self._end.copies()
        if copies is not None and self._copies is not None:
            copies -= self._copies
        cpu = self._cpu_seconds() - self._cpu
        return Ran(seconds, cpu, bad, copies, samples_us, moments)

    def _cpu_seconds(self) -> float:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return usage.ru_utime + usage.ru_stime + self._end.helpers_cpu_seconds()


def run_sender(end: End, loop: Loop) -> Ran:
    """Run the sender's side of a loop; returns when every payload was read and answered."""
    payloads = Payloads(end.out, loop)
    end.start(loop)
    bad = 0
    samples: list[float] = []
    began: list[int] = []
    meter = Meter(end)
    if loop.kind == ECHO:
        for transfer in range(loop.transfers):
            offset = payloads.rewrite(transfer)
            start = now_ns()
            answer = end.exchange(offset)
            if transfer_of(answer, loop.seed, loop.places, loop.stride) != transfer:
                bad += 1
            samples.append((now_ns() - start) / 2e3)
            del answer
            end.release()
    elif loop.kind == ONE_WAY:
        for transfer in range(loop.transfers):
            offset = payloads.number(transfer)
            began.append(now_ns())
            end.deliver(offset)
    else:
        end.stream(payloads.stream())
    ran = meter.stop(bad, samples, began)
    payloads.restore()
    return ran


class Checker:
    """Reads every byte of what arrives, and notes when that was done."""

    def __init__(self, end: End, loop: Loop) -> None:
        self._loop = loop
        self._taken = bytearray(loop.transfers)
        self._ended = [0] * (loop.transfers if loop.kind == ONE_WAY else 0)
        self._echoes = Payloads(end.out, loop) if loop.kind == ECHO else None
        self._next = 0
        self.bad = 0

    def prepare(self) -> int:
        """Write the next echo, and return its offset."""
        if self._echoes is None:
            return 0
        self._next += 1
        return self._echoes.rewrite(self._next - 1)

    def take(self, payload: Buffer) -> None:
        """Check a payload."""
        loop = self._loop
        transfer = transfer_of(payload, loop.seed, loop.places, loop.stride)
        if not 0 <= transfer < loop.transfers or self._taken[transfer]:
            self.bad += 1
            return
        self._taken[transfer] = 1
        if self._ended:
            self._ended[transfer] = now_ns()

    def finish(self) -> list[int]:
        """Count the transfers that never came, and return when each was read."""
        self.bad += self._taken.count(0)
        return self._ended


def run_receiver(end: End, loop: Loop, checker: Checker) -> Ran:
    """Run the receiver's side of a loop, which `end` has started with `checker`."""
    meter = Meter(end)
    end.serve()
    ran = meter.stop(0, [], [])
    ended = checker.finish()
    return Ran(ran.seconds, ran.cpu_seconds, checker.bad, ran.copies, [], ended)
