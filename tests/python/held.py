"""What this process holds of the system, and when that stays."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

STAYS = 0.5
"""Seconds without a change after which a count is taken: memory is released in the background."""
BOUND = 10.0
"""Seconds in which a count is as it was: a bound, and no measure."""
LOOK = 0.02

Counts = dict[str, int]


def held() -> Counts:
    """Count descriptors, threads, and the bytes of shared memory that are mapped."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    shared = [line.split()[0] for line in maps if "/memfd:" in line or "/dev/shm/" in line]
    bounds = [[int(bound, 16) for bound in place.split("-")] for place in shared]
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "mapped bytes": sum(end - start for start, end in bounds),
    }


def settled(
    count: Callable[[], Counts] = held, before: Counts | None = None, stays: float = STAYS
) -> Counts:
    """Return what `count` does, once it is no more than before, or has stayed for so long."""
    since = began = time.monotonic()
    last: Counts | None = None
    while True:
        gc.collect()
        earlier, last = last, count()
        now = time.monotonic()
        since = since if last == earlier else now
        given_back = before is not None and not more(before, last)
        if given_back or now - since >= stays or now - began >= BOUND:
            return last
        time.sleep(LOOK)


def more(before: Counts, after: Counts) -> str:
    """Say of what there is more than before; nothing if there is no more of anything."""
    return ", ".join(
        f"{name} were {count} and are {after[name]}"
        for name, count in before.items()
        if after[name] > count
    )


def not_given_back(before: Counts, count: Callable[[], Counts] = held) -> str:
    """Say of what there is more than before, although there was time to give it back."""
    return more(before, settled(count, before, BOUND))
