"""Makes small requests to a parameter box, over shared memory and TCP, and looks for growth.

    python tests/soak/box.py --operations 1000000

Every operation is drawn from a seeded generator: a read, a change, a lease, a wait, an attachment,
a segment that comes and goes, a client that does. After a warm-up the process, which is server and
client, may hold no more memory, shared mappings, descriptors, threads, segments or leases than
before, and the sums in the segments must be those of the changes.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import sys
import threading
import time
from collections import deque
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import farwrite as fw

ELEMENTS = 256
WINDOW = 64
"""Changes that a client is ahead of the server."""
SPARE_RSS = 24 * 2**20
"""What an interpreter and an allocator may take on after the warm-up."""


@dataclass
class Held:
    """What the process holds of the machine."""

    rss: int
    shared_mappings: int
    """Of memfds and of files in /dev/shm, for example."""
    descriptors: int
    threads: int
    segments: int
    segment_bytes: int
    leases: int
    clients: int


def held(server: fw.box.Server) -> Held:
    """Look at this process."""
    gc.collect()
    stats = server.stats()
    mappings = Path("/proc/self/maps").read_text().splitlines()
    return Held(
        rss=int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"),
        shared_mappings=sum(line.split()[1].endswith("s") for line in mappings),
        descriptors=len(os.listdir("/proc/self/fd")),
        threads=len(os.listdir("/proc/self/task")),
        segments=stats.segments,
        segment_bytes=stats.segment_bytes,
        leases=stats.leases,
        clients=stats.clients,
    )


class Worker:
    """One client that makes operations on its own segment."""

    def __init__(self, server: fw.box.Server, fabric: str, seed: int) -> None:
        self._server = server
        self._fabric = fabric
        self._random = random.Random(seed)
        self._client = server.connect(fabrics=[fabric])
        self._name = f"sums of {fabric}"
        self._segment = self._client.create(self._name, ELEMENTS, "int64")
        self._ones = np.ones(ELEMENTS, "int64")
        self._posted: deque[fw.box.Update] = deque()
        self._sum = 0
        self.failure: BaseException | None = None

    def run(self, operations: int) -> None:
        """Make so many operations, and check the sums."""
        try:
            for _ in range(operations):
                self._operate(self._random.random())
            self._finish(0)
            if not (self._segment.read() == self._sum).all():
                raise AssertionError(f"{self._name}: the sums differ from the changes")
        except BaseException as error:
            self.failure = error

    def _operate(self, draw: float) -> None:
        if draw < 0.5:
            self._posted.append(self._segment.post.accumulate(self._ones))
            self._sum += 1
            self._finish(WINDOW)
        elif draw < 0.9:
            values = self._segment.read()
            if (values != values[0]).any():
                raise AssertionError(f"{self._name}: a read is torn")
        elif draw < 0.96:
            with self._segment.lease() as lease:
                if (lease.array != lease.array[0]).any():
                    raise AssertionError(f"{self._name}: a lease is torn")
        elif draw < 0.98:
            self._finish(0)
            self._segment.wait(self._segment.version)
        elif draw < 0.99:
            self._client.attach(self._name).detach()
        elif draw < 0.9995:
            self._client.create(f"passing {self._fabric}", 1000, "float32").free()
        else:
            with self._server.connect(fabrics=[self._fabric]) as passing:
                passing.attach(self._name).read()

    def _finish(self, left: int) -> None:
        while len(self._posted) > left:
            self._posted.popleft().wait(60)

    def close(self) -> None:
        """Leave the box."""
        self._segment.free()
        self._client.close()


def make(workers: list[Worker], operations: int) -> None:
    """Let every worker make its share."""
    share = operations // len(workers)
    threads = [threading.Thread(target=worker.run, args=(share,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for worker in workers:
        if worker.failure is not None:
            raise worker.failure


def settled(server: fw.box.Server, clients: int) -> Held:
    """Look once the server has seen that passing clients left."""
    deadline = time.monotonic() + 30
    while server.stats().clients > clients and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1.5)  # the threads of clients that left are joined within a second
    return held(server)


def grown(before: Held, after: Held) -> list[str]:
    """Name what has grown."""
    spare = {"rss": SPARE_RSS}
    return [
        f"{name}: {start} -> {end}"
        for (name, start), end in zip(asdict(before).items(), asdict(after).values(), strict=True)
        if end > start + spare.get(name, 0)
    ]


def main() -> int:
    """Run the soak and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operations", type=int, default=1_000_000)
    parser.add_argument("--json", type=Path, help="write the result to this file")
    arguments = parser.parse_args()
    seed = random.SystemRandom().randrange(2**32)
    print(f"soak of a box: {arguments.operations} operations, seed {seed}", flush=True)
    with fw.box.serve(memory="256M") as server:
        workers = [Worker(server, fabric, seed + i) for i, fabric in enumerate(("shm", "tcp"))]
        make(workers, max(arguments.operations // 10, 2000))
        before = settled(server, len(workers))
        begun = time.monotonic()
        for step in range(10):
            make(workers, arguments.operations // 10)
            print(f"  {(step + 1) * 10} %, {time.monotonic() - begun:.0f} s", flush=True)
        after = settled(server, len(workers))
        for worker in workers:
            worker.close()
    faults = grown(before, after)
    result = {
        "operations": arguments.operations,
        "seed": seed,
        "seconds": time.monotonic() - begun,
        "before": asdict(before),
        "after": asdict(after),
        "grown": faults,
    }
    if arguments.json is not None:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(result, indent=2))
    print("nothing grew" if not faults else "grown: " + "; ".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
