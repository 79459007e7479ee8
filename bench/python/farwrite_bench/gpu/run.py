"""Measures transfers between two processes on one GPU, in turns with the driver's own copies."""

from __future__ import annotations

import contextlib
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

import farwrite as fw
from farwrite.errors import Internal
from farwrite.units import format_size
from farwrite_bench.cluster.group import in_turn
from farwrite_bench.failure import noting
from farwrite_bench.gpu import torch_sharing
from farwrite_bench.gpu.driver import Driver
from farwrite_bench.harness.benchmark import Progress, stage
from farwrite_bench.ratio import ratio_of_rounds
from farwrite_bench.report.parts import Facts, Row

PEER = "peer"
WORK, CHECK, HAND_OVER, END = 1, 2, 3, 4
"""Tags of notifications."""
Turn = Callable[[int, int], float]
"""Makes so many transfers of a size, and returns the seconds that they took."""
TURN_SECONDS = 0.1
HAND_OVERS = 50
LIMIT = {"gpu to gpu": "copy", "gpu to host": "copy to host", "host to gpu": "copy from host"}
"""By operation, the driver's copy in one process."""

TARGETS = {
    "write": (0.9, 64 << 20),
    "write to host": (0.85, 16 << 20),
    "read from host": (0.85, 16 << 20),
}
"""By way: the share of the driver's copy, and the size from which on it is asked."""


@dataclass(frozen=True)
class Way:
    """One way to move bytes."""

    key: str
    operation: str
    turn: Turn


@dataclass
class Turns:
    """The figures of one way at one size, by round."""

    gb_s: list[float] = field(default_factory=list)
    pins: int = 0
    mappings: int = 0


class _Site:
    """The two processes, and the memory of this one."""

    def __init__(self, size: int, ordinal: int, stack: contextlib.ExitStack) -> None:
        self.driver = Driver(ordinal)
        stack.callback(self.driver.close)
        self.device = stack.enter_context(fw.Device(listen="127.0.0.1:0"))
        context = multiprocessing.get_context("spawn")
        peer = context.Process(
            target=_serve, args=(str(self.device.endpoint), size, ordinal), daemon=True
        )
        peer.start()
        stack.callback(peer.join, 30)
        self.channel = stack.enter_context(self.device.accept(60))
        self.array = self.device.allocate(size, kind=f"cuda:{ordinal}").array
        self.here, self.there = self.driver.memory(size), self.driver.memory(size)
        self.pinned = self.driver.pinned(size)
        self.inboxes = {box: self.channel.lookup(f"{box}-in", 60) for box in ("gpu", "host")}
        self.outboxes = {box: self.channel.lookup(f"{box}-out", 60) for box in ("gpu", "host")}
        self.alias = self.outboxes["gpu"].alias()
        self.alias_address = int(self.alias.__cuda_array_interface__["data"][0])
        self.parts: dict[int, fw.CudaArray] = {}

    def ways(self) -> list[Way]:
        """All ways of Farwrite and the driver."""
        driver = self.driver

        def copies(to: int, source: int) -> Turn:
            return lambda size, transfers: driver.time_copies(to, source, size, transfers)

        return [
            Way("copy", "gpu to gpu", copies(self.here, self.there)),
            Way("write", "gpu to gpu", lambda size, n: self._write("gpu", size, n)),
            Way("alias", "gpu to gpu", copies(self.here, self.alias_address)),
            Way("copy to host", "gpu to host", copies(self.pinned, self.there)),
            Way("write to host", "gpu to host", lambda size, n: self._write("host", size, n)),
            Way("copy from host", "host to gpu", copies(self.there, self.pinned)),
            Way("read from host", "host to gpu", self._read),
        ]

    def _write(self, box: str, size: int, transfers: int) -> float:
        source, target = self._part(size), self.inboxes[box]
        start = time.perf_counter()
        for _ in range(transfers):
            self.channel.write(source, target, notify=WORK).wait()
        return time.perf_counter() - start

    def _read(self, size: int, transfers: int) -> float:
        destination, source = self._part(size), self.outboxes["host"]
        start = time.perf_counter()
        for _ in range(transfers):
            self.channel.read(source, destination).wait()
        return time.perf_counter() - start

    def _part(self, size: int) -> fw.CudaArray:
        """View the first bytes of this process's array."""
        if size not in self.parts:
            self.parts[size] = self.array[:size]
        return self.parts[size]

    def check(self, size: int, value: int) -> None:
        """Let both inboxes be written and compared, and the outboxes read and compared."""
        for box in self.inboxes:
            self.array.copy_from(np.full(self.array.size, value, "uint8"))
            self.channel.write(self._part(size), self.inboxes[box], notify=WORK).wait()
            self.channel.send(f"{box} {value} {size}".encode(), CHECK).wait()
            wrong = int(self.channel.wait_notification(60).message)
            _require(wrong, f"a write to the {box}'s inbox")
        seen = np.empty(self.alias.size, "uint8")
        self.alias.copy_to(seen)
        _require(int(np.count_nonzero(seen != 3)), "an alias")
        self.channel.read(self.outboxes["host"], self._part(size)).wait()
        self.array.copy_to(seen)
        _require(int(np.count_nonzero(seen[:size] != 4)), "a read")

    def hand_over_us(self) -> Iterator[float]:
        """Have the peer publish an array that nothing maps, and map it, so many times."""
        mapped = self.device.stats().gpu.mappings
        for number in range(HAND_OVERS):
            start = time.perf_counter()
            self.channel.send(f"again-{number}".encode(), HAND_OVER).wait()
            self.channel.wait_notification(60)
            alias = self.channel.lookup(f"again-{number}", 60).alias()
            taken = time.perf_counter() - start
            del alias
            mapped += 1
            if self.device.stats().gpu.mappings != mapped:
                raise Internal("bench gpu: an array was handed over without a map; report this")
            yield taken * 1e6


def _serve(endpoint: str, size: int, ordinal: int) -> None:
    """Publish regions of `size` bytes, on the GPU and in host memory, until the channel closes.

    A message with the tag CHECK, a byte as text, is answered: whether every byte of both inboxes
    is that one. One with the tag HAND_OVER has a spare region of the GPU published by that name.
    """
    kind = f"cuda:{ordinal}"
    with fw.Device() as device, device.connect(endpoint) as channel:
        inboxes = {
            "gpu": channel.publish("gpu-in", channel.allocate(size, kind=kind)),
            "host": channel.publish("host-in", channel.allocate(size)),
        }
        on_gpu = device.publish("gpu-out", device.allocate(size, kind=kind))
        on_host = device.publish("host-out", device.allocate(size))
        spare = device.allocate(size, kind=kind)
        on_gpu.array.copy_from(np.full(size, 3, "uint8"))
        on_host.array[:] = 4
        while (news := channel.next_notification()) is not None:
            if news.tag == CHECK:
                box, value, length = news.message.decode().split()
                wrong = _wrong(inboxes[box], int(value), int(length))
                channel.send(str(wrong).encode(), CHECK).wait()
            elif news.tag == HAND_OVER:
                name = news.message.decode()
                device.publish(name, spare)
                channel.notify(HAND_OVER).wait()


def _wrong(inbox: fw.RegisteredArray, value: int, length: int) -> int:
    seen = np.empty(inbox.nbytes, "uint8")
    if isinstance(inbox.array, fw.CudaArray):
        inbox.array.copy_to(seen)
    else:
        seen[:] = inbox.array
    return int(np.count_nonzero(seen[:length] != value))


def _require(wrong: int, what: str) -> None:
    if wrong:
        raise Internal(f"bench gpu: {what} brought {wrong} wrong bytes; report this")


def run(sizes: tuple[int, ...], rounds: int, ordinal: int, progress: Progress) -> Facts:
    """Measure every size, and return what the file holds. All ways take turns in each round."""
    rows: list[Row] = []
    failed: dict[str, str] = {}
    missing: dict[str, str] = {}
    hand_over_us: dict[str, list[float]] = {}
    with contextlib.ExitStack() as stack:
        site = _Site(max(sizes), ordinal, stack)
        ways = site.ways()
        if torch_sharing.is_missing():
            missing["torch"] = torch_sharing.INSTALL
        else:
            shared = torch_sharing.start(max(sizes), ordinal, stack)
            ways.append(Way("torch", "gpu to gpu", shared))
            hand_over_us["torch"] = torch_sharing.hand_over_us(max(sizes), ordinal, HAND_OVERS)
        hand_over_us["alias"] = list(site.hand_over_us())
        for at, size in enumerate(sizes):
            of_size = stage(progress, at, len(sizes), format_size(size))
            if not failed:  # behind a failure, the peer may be gone or answer late
                with noting(failed, PEER):
                    site.check(size, 5 + at)
                    rows += make_rows(size, ways, _measure(site, ways, size, rounds, of_size))
            if failed:
                rows += (
                    {
                        "size": size,
                        "operation": way.operation,
                        "way": way.key,
                        "error": failed[PEER],
                    }
                    for way in ways
                )
        return {
            "gpu": site.driver.name(),
            "rows": rows,
            "hand_over": [
                {"way": key, "p50_us": statistics.median(each), "times": len(each)}
                for key, each in hand_over_us.items()
            ],
            "missing": missing,
        }


def _measure(
    site: _Site, ways: Sequence[Way], size: int, rounds: int, progress: Progress
) -> dict[str, Turns]:
    by_key = {way.key: way for way in ways}
    found = {key: Turns() for key in by_key}
    transfers = {key: _transfers(way, size) for key, way in by_key.items()}
    for number, key in in_turn([*by_key], rounds):
        progress(number / rounds, f"round {number + 1}")
        before = site.device.stats().gpu
        seconds = by_key[key].turn(size, transfers[key])
        after = site.device.stats().gpu
        turns = found[key]
        turns.gb_s.append(size * transfers[key] / seconds / 1e9)
        turns.pins += after.pins - before.pins
        turns.mappings += after.mappings - before.mappings
    return found


def make_rows(size: int, ways: Sequence[Way], turns: Mapping[str, Turns]) -> list[Row]:
    """Make a row for each way at one size."""
    rows = []
    for way in ways:
        figures, limit = turns[way.key], LIMIT[way.operation]
        of_limit = None if way.key == limit else ratio_of_rounds(figures.gb_s, turns[limit].gb_s)
        share, least = TARGETS.get(way.key, (None, 0))
        asked = share if size >= least else None
        met = of_limit["median"] >= asked if of_limit and asked else None
        rows.append(
            {
                "size": size,
                "operation": way.operation,
                "way": way.key,
                "gb_s": statistics.median(figures.gb_s),
                "gb_s_rounds": figures.gb_s,
                "of_limit": of_limit,
                "target": asked,
                "target_met": met,
                "pins": figures.pins,
                "mappings": figures.mappings,
            }
        )
    return rows


def _transfers(way: Way, size: int) -> int:
    way.turn(size, 2)
    once = statistics.median(way.turn(size, 1) for _ in range(3))
    return max(2, min(2000, round(TURN_SECONDS / once)))
