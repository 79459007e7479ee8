"""Moves tensors of random sizes between eight processes, both ways, and looks for growth.

    python tests/soak/soak.py --transfers 1000000

The processes stand in a ring. Every other channel runs over shared memory, the others over TCP, and
each carries a bounded edge and a dynamic one in either direction. Every tensor is checked; after a
warm-up no process may hold more memory, descriptors, threads, leases or arena than before.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import multiprocessing.connection
import os
import queue
import sys
import threading
import time
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

import farwrite as fw

PROCESSES = 8
WINDOW = 16
"""Tensors that one side is ahead of what it has received."""
BOUNDED_BYTES = 64 * 1024
DYNAMIC_BYTES = 1024 * 1024
DYNAMIC_EVERY = 16
WAIT = 120.0
SPARE_RSS = 24 * 2**20
"""What an interpreter and an allocator may take on after the warm-up, per process."""


@dataclass
class Held:
    """What a process holds of the machine."""

    rss: int
    descriptors: int
    threads: int
    arena: int
    segments: int
    leases: int


def held(devices: list[fw.Device]) -> Held:
    """Look at this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    stats = [device.stats() for device in devices]
    return Held(
        rss=pages * os.sysconf("SC_PAGE_SIZE"),
        descriptors=len(os.listdir("/proc/self/fd")),
        threads=len(os.listdir("/proc/self/task")),
        arena=sum(one.send.used + one.receive.used for one in stats),
        segments=sum(one.send.segments + one.receive.segments for one in stats),
        leases=sum(one.leases_held_by_peers for one in stats),
    )


def sizes(seed: int, count: int) -> np.ndarray[Any, Any]:
    """Draw lengths in bytes, all magnitudes alike; both ends draw the same."""
    chance = np.random.default_rng(seed)
    limits = np.where(np.arange(count) % DYNAMIC_EVERY == 0, DYNAMIC_BYTES, BOUNDED_BYTES)
    return np.minimum(np.exp2(chance.uniform(0, 20.01, count)), limits).astype(np.int64) - 1


class Conversation:
    """One channel: sends `count` tensors and receives as many, in a thread of its own."""

    def __init__(self, channel: fw.Channel, outgoing: int, incoming: int, count: int) -> None:
        self.channel = channel
        self.count = count
        self.received = 0
        self.failure: BaseException | None = None
        self._sizes_out = sizes(outgoing, count)
        self._sizes_in = sizes(incoming, count)
        self._receivers = [
            fw.TensorReceiver(channel, "bounded", dtype="uint8", max_bytes=BOUNDED_BYTES),
            fw.TensorReceiver(channel, "dynamic"),
        ]
        self._thread = threading.Thread(target=self._run, name="conversation")

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def join(self) -> None:
        """Wait for the end; raise what went wrong."""
        self._thread.join()
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        try:
            senders = [fw.TensorSender(self.channel, name, WAIT) for name in ("bounded", "dynamic")]
            source = np.empty(DYNAMIC_BYTES, "uint8")
            for number in range(self.count + WINDOW):
                if number < self.count:
                    tensor = source[: self._sizes_out[number]]
                    tensor.fill(number % 251)
                    dynamic = number % DYNAMIC_EVERY == 0
                    senders[dynamic].send(tensor).wait(WAIT)
                if number >= WINDOW:
                    self._take(number - WINDOW)
        except BaseException as error:
            self.failure = error

    def _take(self, number: int) -> None:
        dynamic = number % DYNAMIC_EVERY == 0
        tensor = self._receivers[dynamic].receive(WAIT)
        if tensor.size != self._sizes_in[number] or not (tensor == number % 251).all():
            raise AssertionError(f"tensor {number} is torn or another one")
        self.received += 1


def _count_of(conversations: list[Conversation]) -> int:
    return sum(one.received for one in conversations)


def worker(index: int, count: int, orders: Connection) -> None:
    """Be one process of the ring."""
    limits = {"send_limit": 64 << 20, "receive_limit": 64 << 20, "segment_bytes": 8 << 20}
    listening = fw.Device(**limits)  # type: ignore[arg-type]
    calling = fw.Device(fabrics=["shm" if index % 2 == 0 else "tcp"], **limits)  # type: ignore[arg-type]
    devices = [calling, listening]
    orders.send(listening.endpoint)
    neighbour = orders.recv()
    accepted: queue.Queue[fw.Channel] = queue.Queue()
    thread = threading.Thread(target=lambda: accepted.put(listening.accept(WAIT)))
    thread.start()
    to_next = calling.connect(neighbour, WAIT)
    from_last = accepted.get(timeout=WAIT)
    thread.join()
    last = (index - 1) % PROCESSES
    conversations = [
        Conversation(to_next, 2 * index, 2 * index + 1, count),
        Conversation(from_last, 2 * last + 1, 2 * last, count),
    ]
    for conversation in conversations:
        conversation.start()
    warm: Held | None = None
    total = 2 * count
    try:
        while (done := _count_of(conversations)) < total:
            if any(conversation.failure is not None for conversation in conversations):
                break
            if warm is None and min(one.received for one in conversations) > count // 5:
                warm = held(devices)
            orders.send(("received", done))
            time.sleep(0.5)
        for conversation in conversations:
            conversation.join()
        end = held(devices)
        fabrics = [to_next.peer.fabric, from_last.peer.fabric]
        orders.send(("ended", {"warm": asdict(warm or end), "end": asdict(end), "by": fabrics}))
    except BaseException as error:
        orders.send(("failed", f"{type(error).__name__}: {error}"))
    orders.recv()  # the others may still be reading
    for device in devices:
        device.close(5)


def run(transfers: int, quiet: bool) -> dict[str, Any]:
    """Run the ring; returns what every process held after the warm-up and at the end."""
    count = max(transfers // (2 * PROCESSES), WINDOW)
    spawn = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for index in range(PROCESSES):
        ours, theirs = spawn.Pipe()
        process = spawn.Process(target=worker, args=(index, count, theirs), daemon=True)
        process.start()
        theirs.close()
        pipes.append(ours)
        processes.append(process)
    started = time.monotonic()
    received = [0] * PROCESSES
    results: dict[int, Any] = {}
    try:
        endpoints = [pipe.recv() for pipe in pipes]
        for index, pipe in enumerate(pipes):
            pipe.send(endpoints[(index + 1) % PROCESSES])
        while len(results) < PROCESSES:
            for pipe in multiprocessing.connection.wait(pipes, timeout=WAIT):
                index = pipes.index(pipe)  # type: ignore[arg-type]
                kind, value = pipes[index].recv()
                if kind == "failed":
                    raise SystemExit(f"soak: process {index}: {value}")
                if kind == "ended":
                    results[index] = value
                else:
                    received[index] = value
            if not quiet:
                line = f"\r{sum(received):>9} of {2 * PROCESSES * count} tensors"
                sys.stderr.write(f"{line}, {time.monotonic() - started:.0f} s")
        for pipe in pipes:
            pipe.send("go")
        for process in processes:
            process.join(30)
    finally:
        for process in processes:
            process.kill()
            process.join()
        for pipe in pipes:
            pipe.close()
    return {
        "transfers": 2 * PROCESSES * count,
        "seconds": round(time.monotonic() - started, 1),
        "processes": [results[index] for index in range(PROCESSES)],
    }


def growth(result: dict[str, Any]) -> list[str]:
    """Say what grew."""
    found = []
    for index, process in enumerate(result["processes"]):
        warm, end = Held(**process["warm"]), Held(**process["end"])
        for name, spare in (("rss", SPARE_RSS), ("descriptors", 0), ("threads", 0)):
            before, after = getattr(warm, name), getattr(end, name)
            if after > before + spare:
                found.append(f"process {index}: {name} {before} -> {after}")
        if end.segments > warm.segments:
            found.append(f"process {index}: segments {warm.segments} -> {end.segments}")
    return found


def main() -> int:
    """Run from the command line; 1 if something grew."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transfers", type=int, default=1_000_000)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quiet", action="store_true")
    arguments = parser.parse_args()
    result = run(arguments.transfers, arguments.quiet)
    if arguments.json is not None:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(result, indent=1))
    found = growth(result)
    print(f"\n{result['transfers']} tensors in {result['seconds']} s, {len(found)} things grew")
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
