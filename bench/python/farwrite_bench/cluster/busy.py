"""A task that keeps one core busy: a `Task` of this module.

Its first message is the number of the core. It answers when it runs there, and computes until the
parent closes the control pipe or ends.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

from farwrite_bench.cluster.process import Task

_TURNS = 100_000
"""Iterations between two looks at the pipe: a few milliseconds."""


@contextlib.contextmanager
def busy_cores(count: int, logs: Path) -> Iterator[None]:
    """Keep `count` cores busy, one process on each, until the end of the block."""
    with contextlib.ExitStack() as stack:
        tasks = []
        for core in sorted(os.sched_getaffinity(0))[:count]:
            log = logs / f"busy-{core}.log"
            task = Task(f"busy {core}", "farwrite_bench.cluster.busy", {}, log)
            tasks.append(stack.enter_context(task))
            task.send(core)
        for task in tasks:
            task.receive()
        yield


def main(control: Connection) -> None:
    """Compute until the parent closes the control pipe."""
    core: int = control.recv()
    os.sched_setaffinity(0, {core})
    control.send("busy")
    while not control.poll():
        for _ in range(_TURNS):
            pass
