"""Ranks of ``bench box`` that need no MPI, and turns that may end a process."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

import numpy as np

from farwrite_bench.box.openmpi import run_rank
from farwrite_bench.box.process import Turn, main
from farwrite_bench.box.worker import DELTA

WORKERS = 2
STATUS = 7


@contextlib.contextmanager
def failing_once(size: int) -> Iterator[Turn]:
    """Add as every worker would; the first rank 0 that has a turn ends in it."""
    steps = 0

    def run(moment: float, count: int, compute: float) -> tuple[list[float], dict[str, int]]:
        nonlocal steps
        mark = os.environ["FAILS_ONCE"]
        if os.environ["OMPI_COMM_WORLD_RANK"] == "0" and not os.path.exists(mark):
            open(mark, "x").close()
            os._exit(STATUS)
        steps += count
        return [compute + 0.001] * count, {}

    yield Turn(run, weights=lambda: np.full(4, WORKERS * steps * DELTA))


@contextlib.contextmanager
def failing_worker(*_: object) -> Iterator[Turn]:
    """End every worker in its first turn."""
    yield Turn(lambda *_: os._exit(STATUS))


if __name__ == "__main__":
    sys.exit(run_rank(main))
